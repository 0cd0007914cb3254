// Package config reads the program's settings from environment variables, checks them all at once, and renders their
// reference. What a setting is called, means and may be stands in one place: the tags of Config's fields.
package config
