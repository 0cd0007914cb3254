package continuity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"waterwheel/e2e/harness"
)

// group is the consumers of a scenario. members holds their processes by slot, and nil for an empty slot.
type group struct {
	options  Options
	settings harness.Settings
	static   bool
	members  [members + 1]*harness.Consumer
}

// owners maps partitions to the slots of their owners.
type owners map[int32]int

func (g *group) start(slot int) error {
	settings := g.settings
	if g.static {
		settings = settings.With("KAFKA_INSTANCE_ID", fmt.Sprintf("%s-%d", settings["KAFKA_GROUP_ID"], slot))
	}
	g.options.note("start consumer %d", slot)
	process, err := harness.Start(g.options.Consumer, settings)
	if err != nil {
		return err
	}
	g.members[slot] = process
	return nil
}

func (g *group) kill(slot int) {
	g.options.note("kill consumer %d", slot)
	g.members[slot].Kill()
	g.members[slot] = nil
}

// terminate ends a member with SIGTERM. If it does not end with code 0, terminate returns an error.
func (g *group) terminate(ctx context.Context, slot int) error {
	g.options.note("end consumer %d", slot)
	process := g.members[slot]
	code, err := process.Terminate(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("code %d:\n%s", code, process.Log())
	}
	if err != nil {
		return fmt.Errorf("ending consumer %d: %w", slot, err)
	}
	g.members[slot] = nil
	return nil
}

// terminateAll terminates all members, one after the other.
func (g *group) terminateAll(ctx context.Context) error {
	for slot, process := range g.members {
		if process != nil {
			if err := g.terminate(ctx, slot); err != nil {
				return err
			}
		}
	}
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

// lastWords returns the last lines that each member printed.
func (g *group) lastWords() string {
	const most = 10
	var words strings.Builder
	for slot, process := range g.members {
		if process != nil {
			lines := strings.Split(strings.TrimSpace(process.Log()), "\n")
			fmt.Fprintf(&words, "\nconsumer %d:\n\t%s", slot, strings.Join(lines[max(0, len(lines)-most):], "\n\t"))
		}
	}
	return words.String()
}

// restInterval is the time between two checks whether the group is at rest.
const restInterval = 200 * time.Millisecond

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
			return fmt.Errorf("waiting until %s: %w%s", what, context.Cause(ctx), g.lastWords())
		case <-time.After(restInterval):
		}
	}
	return nil
}

// awaitRest waits until each member has partitions and each partition is read by one member. It returns the owners.
func (g *group) awaitRest(ctx context.Context) (owners, error) {
	var by owners
	err := g.await(ctx, "all partitions are read", func() (rest bool) {
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
		partitions, err := assigned(ctx, process)
		if err != nil || len(partitions) == 0 {
			return nil, false
		}
		for _, p := range partitions {
			if _, twice := by[p.Partition]; twice || !p.Working {
				return nil, false
			}
			by[p.Partition] = slot
		}
	}
	return by, len(by) == g.options.Partitions
}

// partition is the state of a partition, as its consumer reports it.
type partition struct {
	Partition int32 `json:"partition"`
	Working   bool  `json:"working"`
}

func assigned(ctx context.Context, process *harness.Consumer) ([]partition, error) {
	status, body, err := process.Get(ctx, "/api/status")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("asking /api/status: status %d", status)
	}
	var view struct {
		Partitions []partition `json:"partitions"`
	}
	if err := json.Unmarshal([]byte(body), &view); err != nil {
		return nil, fmt.Errorf("reading /api/status: %w", err)
	}
	return view.Partitions, nil
}
