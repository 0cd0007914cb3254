// Package config reads the program's settings from environment variables, checks them all at once, and renders their reference.
// The tags of Config's fields are the only definition of each setting: its name, its meaning and its allowed values.
//
//	config.go     every setting
//	fields.go     a setting by its tags: notation and bounds, its line in the reference, and its JSON Schema
//	load.go       reading the settings, and defaults that no tag can hold
//	file.go       CONFIG_FILE, with settings of single topics
//	topics.go     topics by patterns, and the settings of each topic
//	values.go     values with a notation, and binary files
//	uri.go        values that are not shown: secrets, and MongoDB's URI with its check
//	check.go      settings taken together: servers, topics, logins, times
//	checkdata.go  settings taken together: events, and how they are stored
//	problem.go    what is wrong, misspelt settings, and settings that cost something
package config
