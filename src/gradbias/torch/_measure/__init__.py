"""Gradient noise, curvature, repeatability."""
