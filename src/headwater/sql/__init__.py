"""The only place where SQL is read or built.

dialect     Spark's SQL as sqlglot reads it, with expressions kept word for word
statements  the DDL of Headwater
constructs  what a view may hold, how it is kept, and the reason code of what is refused
lower       a SELECT to a plan
render      a propagation query to Spark SQL
storage     the statements that read and write view tables
"""
