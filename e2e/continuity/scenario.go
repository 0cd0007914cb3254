package continuity

import "context"

// scenario is one disturbance of a group.
type scenario struct {
	name, what string
	// static gives each member a KAFKA_INSTANCE_ID.
	static bool
	// disturb returns when it has started and ended all its processes.
	disturb func(ctx context.Context, g *group) error
	// touched reports whether the disturbance concerns a partition, given the owners before and after.
	touched func(partition int32, before, after owners) bool
}

// disturbed is the slot of the member that is killed or leaves. dead is the slot of a member that dies before that. joining is
// the slot of the added member.
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

// Names returns the names of the scenarios.
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

// leaveBesideDead makes a member leave while the group waits for a dead one. The next generation begins when the session of the
// dead member times out.
func leaveBesideDead(ctx context.Context, g *group) error {
	g.kill(dead)
	return g.terminate(ctx, disturbed)
}

// rolling restarts all members as an orchestrator does. It restarts the next member when the one before reports that it is ready.
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
