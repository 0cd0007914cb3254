// Package config reads the program's settings from the environment, checks them all at once, and renders their reference.
package config
