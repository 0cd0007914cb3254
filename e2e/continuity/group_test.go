package continuity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"waterwheel/e2e/harness"
)

// members is the number of consumers before a disturbance.
const members = 3

// These are slots of members: disturbed is killed or leaves, dead dies before that, and joining is added.
const (
	disturbed = 0
	dead      = 1
	joining   = members
)

// owners maps partitions to the slots of their owners.
type owners map[int32]int

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

func ownedBefore(p int32, before, _ owners) bool { return before[p] == disturbed }

var scenarios = []scenario{
	{"kill", "a consumer killed with -9 and started again", false, killAndStart, ownedBefore},
	{"kill-static", "the same with static membership", true, killAndStart, ownedBefore},
	{
		"join", "a fourth consumer added", false, func(_ context.Context, g *group) error { return g.start(joining) },
		func(p int32, _, after owners) bool { return after[p] == joining },
	},
	{"leave", "a consumer leaves by SIGTERM", false, func(ctx context.Context, g *group) error { return g.terminate(ctx, disturbed) }, ownedBefore},
	// The group waits for a dead member then. The next generation begins when its session times out.
	{"leave-dead", "a consumer leaves by SIGTERM right after another was killed", false, func(ctx context.Context, g *group) error {
		g.kill(dead)
		return g.terminate(ctx, disturbed)
	}, ownedBefore},
	{"rolling", "all three restarted, one after the other", false, rolling, func(int32, owners, owners) bool { return true }},
}

// named returns the scenarios with these names. No name stands for all scenarios.
func named(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var found []scenario
	for _, name := range names {
		at := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no scenario is named %q", name)
		}
		found = append(found, scenarios[at])
	}
	return found, nil
}

func killAndStart(_ context.Context, g *group) error {
	g.kill(disturbed)
	return g.start(disturbed)
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
	}
	return nil
}

// group is the consumers of a scenario. members holds their processes by slot, and nil for an empty slot.
type group struct {
	options  Options
	settings harness.Settings
	static   bool
	members  [members + 1]*harness.Consumer
}

func (g *group) start(slot int) (err error) {
	settings := g.settings
	if g.static {
		settings = settings.With("KAFKA_INSTANCE_ID", fmt.Sprintf("%s-%d", settings["KAFKA_GROUP_ID"], slot))
	}
	g.options.note("start consumer %d", slot)
	g.members[slot], err = harness.Start(g.options.Consumer, settings)
	return err
}

func (g *group) kill(slot int) {
	g.options.note("kill consumer %d", slot)
	g.members[slot].Kill()
	g.members[slot] = nil
}

// terminate ends a member with SIGTERM, if there is one. If it does not end with code 0, terminate returns an error.
func (g *group) terminate(ctx context.Context, slot int) error {
	process := g.members[slot]
	if process == nil {
		return nil
	}
	g.options.note("end consumer %d", slot)
	code, err := process.Terminate(ctx)
	if err != nil || code != 0 {
		return fmt.Errorf("ending consumer %d: code %d, %w:\n%s", slot, code, err, process.Log())
	}
	g.members[slot] = nil
	return nil
}

// close kills the members that still run.
func (g *group) close() {
	for _, process := range g.members {
		if process != nil {
			process.Kill()
		}
	}
}

// ended returns an error if a member has ended by itself.
func (g *group) ended() error {
	for slot, process := range g.members {
		if process != nil && !process.Running() {
			return fmt.Errorf("consumer %d has ended by itself:\n%s", slot, process.Log())
		}
	}
	return nil
}

// await waits until so returns true. It returns an error if a member ends by itself.
func (g *group) await(ctx context.Context, what string, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, g.options.Patience)
	defer cancel()
	for !so() {
		if err := g.ended(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// awaitRest waits until each member has partitions and each partition is read by one member. It returns the owners.
func (g *group) awaitRest(ctx context.Context) (by owners, err error) {
	err = g.await(ctx, "all partitions are read", func() (rest bool) {
		by, rest = g.look(ctx)
		return rest
	})
	return by, err
}

// look asks all members for their partitions. It returns false if the group is not at rest.
func (g *group) look(ctx context.Context) (owners, bool) {
	by := owners{}
	for slot, process := range g.members {
		if process == nil {
			continue
		}
		var view struct {
			Partitions []struct {
				Partition int32 `json:"partition"`
				Working   bool  `json:"working"`
			} `json:"partitions"`
		}
		_, body, err := process.Get(ctx, "/api/status")
		if err != nil || json.Unmarshal([]byte(body), &view) != nil || len(view.Partitions) == 0 {
			return nil, false
		}
		for _, p := range view.Partitions {
			if _, twice := by[p.Partition]; twice || !p.Working {
				return nil, false
			}
			by[p.Partition] = slot
		}
	}
	return by, len(by) == g.options.Partitions
}
