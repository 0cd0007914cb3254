// Package config reads the program's settings from environment variables, checks them all at once, and renders their
// reference. What a setting is called, means and may be stands in one place: the tags of Config's fields.
//
//	config.go        every setting
//	load.go          reading them; fields.go: their tags; bounds.go: their notation and bounds; unknown.go: misspelt ones
//	check.go         settings taken together; checkkafka.go, checkevent.go, checkmongodb.go, checkuri.go, checkserve.go, checkoauth.go, rollup.go: by what they are of
//	file.go          CONFIG_FILE, with settings of single topics; topics.go: topics by patterns, and which settings are whose
//	fill.go          defaults that no tag can hold; memory.go: how much memory there is
//	render.go        settings in effect, and the reference; schema.go: them for charts; problem.go: what is wrong; warnings.go: what costs something
//	secret.go        values that are not shown; uri.go: MongoDB's; size.go, times.go, places.go: values with a notation; content.go: files of bytes
package config
