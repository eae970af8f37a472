"""Thousands of random requests across the threshold: does the server hold, leak nothing and say the same?"""
