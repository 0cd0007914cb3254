// Package continuity measures how long partitions stand still when members of the group come, go or die. Three consumers run
// under a steady load, each in its own process. The measure is the time between two durable writes of a partition, as MongoDB
// shows them. Command continuity in cmd/continuity is its command line.
//
// Each scenario has its own topic, group and database. It is measured first undisturbed and then disturbed. At the end the
// checker says whether every measurement is stored once.
//
//	options.go    what to measure
//	scenario.go   the disturbances
//	run.go        one scenario, from its topic to its result
//	judge.go      the end of a scenario: the verdict and the clean-up
//	group.go      the members: their processes and their partitions
//	load.go       records at a steady rate, each with its creation time
//	watch.go      looks at the stored documents
//	gaps.go       the figures, computed from the looks
//	report.go     the table and the file
package continuity
