package continuity

import "context"

// scenario is one disturbance of a group.
type scenario struct {
	name, what string
	// static: each member has a KAFKA_INSTANCE_ID.
	static bool
	// disturb returns when all processes are started or ended that are to be.
	disturb func(ctx context.Context, g *group) error
	// touched are the partitions that the disturbance is about, by the owners before and after.
	touched func(partition int32, before, after owners) bool
}

// disturbed is the slot of the member that is killed or leaves, dead that of a member which dies before that, and joining that of
// the member that is added.
const (
	disturbed = 0
	dead      = 1
	joining   = members
)

var scenarios = []scenario{
	{name: "kill", what: "a consumer killed with -9 and started again", disturb: killAndStart, touched: ownedBefore},
	{name: "kill-static", what: "the same with static membership", static: true, disturb: killAndStart, touched: ownedBefore},
	{name: "join", what: "a fourth consumer added", disturb: join, touched: ownedAfter},
	{name: "leave", what: "a consumer leaves by SIGTERM", disturb: leave, touched: ownedBefore},
	{name: "leave-dead", what: "a consumer leaves by SIGTERM right after another was killed", disturb: leaveBesideDead, touched: ownedBefore},
	{name: "rolling", what: "all three restarted, one after the other", disturb: rolling, touched: all},
}

// Names are the names of the scenarios.
func Names() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

func killAndStart(_ context.Context, g *group) error {
	g.kill(disturbed)
	return g.start(disturbed)
}

func join(_ context.Context, g *group) error { return g.start(joining) }

func leave(ctx context.Context, g *group) error { return g.terminate(ctx, disturbed) }

// leaveBesideDead leaves while the group waits for a member that does not answer any more. The next generation begins when the session
// of the dead member is over.
func leaveBesideDead(ctx context.Context, g *group) error {
	g.kill(dead)
	return g.terminate(ctx, disturbed)
}

// rolling does what an orchestrator does: the next one goes when the one before says that it is ready.
func rolling(ctx context.Context, g *group) error {
	for slot := range members {
		if err := g.terminate(ctx, slot); err != nil {
			return err
		}
		if err := g.start(slot); err != nil {
			return err
		}
		if err := g.members[slot].AwaitReady(ctx); err != nil {
			return err
		}
		g.options.note("consumer %d is ready again", slot)
	}
	return nil
}

func ownedBefore(p int32, before, _ owners) bool { return before[p] == disturbed }

func ownedAfter(p int32, _, after owners) bool { return after[p] == joining }

func all(int32, owners, owners) bool { return true }
