// Package config reads the program's settings from environment variables, checks them all at once, and renders their reference.
// The tags of Config's fields are the only definition of each setting: its name, its meaning and its allowed values.
//
//	config.go        every setting
//	load.go          reading them; fields.go: their tags, notation and bounds; unknown.go: misspelt ones
//	check.go         settings taken together; checkkafka.go, checkevent.go, checkmongodb.go, checkuri.go, rollup.go: by subject
//	file.go          CONFIG_FILE, with settings of single topics; topics.go: topics by patterns, and the settings of each topic
//	fill.go          defaults that no tag can hold, and how much memory there is
//	render.go        effective settings, the reference, and a JSON Schema for charts
//	problem.go       what is wrong, and settings that cost something
//	secret.go        values that are not shown; uri.go: MongoDB's; values.go: values with a notation, and binary files
package config
