// Package continuity measures how long partitions stand still when members of the group come, go or die. Three consumers run
// under a steady load, each in its own process. The measure is the time between two durable writes of a partition, as MongoDB
// shows them.
//
// Each scenario has its own topic, group and database. It is measured first undisturbed and then disturbed. At the end the
// checker says whether every measurement is stored once.
//
// The package has only tests. TestScenarios plays two scenarios in short. TestContinuity (make continuity) measures all of them:
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs E2E_MONGODB_URI=mongodb://... go test ./continuity -run TestContinuity -v -timeout 0 -measure
//
//	continuity_test.go  the tests and their flags
//	scenario_test.go    one scenario, from its topic to its result; the table
//	group_test.go       the members, their partitions, and the disturbances
//	watch_test.go       the load; looks at the stored documents, and the figures computed from them
//	figures_test.go     tests of these figures
package continuity
