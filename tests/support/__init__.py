"""What tests share; no product code imports it."""
