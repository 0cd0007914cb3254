// Package continuity measures how long partitions stand still when members of the group come, go or die: three consumers, each a
// process of its own, under a steady load, and the time between two durable writes of a partition as MongoDB shows it. Command
// continuity in cmd/continuity is its command line.
//
// Each scenario has a topic, a group and a database of its own. It is measured undisturbed first, then disturbed; at the end the
// checker says whether all is stored once.
//
//	options.go    what is to be measured
//	scenario.go   the disturbances
//	run.go        one scenario, from its topic to what was seen
//	judge.go      its end: the verdict, and nothing left behind
//	group.go      the members: processes, and who has which partition
//	load.go       records at a steady rate, with the time they are made at
//	watch.go      looking at what is stored
//	gaps.go       from what was seen to figures
//	report.go     the table and the file
package continuity
