"""What Ralph can do: each noun is a module and each verb a function, made of the parts below."""
