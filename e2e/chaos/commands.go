package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// commandPatience bounds a command of an operator. An edit of metas waits for a compaction, and for COMPACT_VISIBILITY_DELAY.
const commandPatience = 15 * time.Minute

// codeFailed is the exit code of a command that failed, for example because a server is away.
const codeFailed = 1

// updateMeta lets an operator edit the metas of a few series. A run of the command that fails has edited some of their buckets.
func (r *run) updateMeta(ctx context.Context) (bool, error) {
	first := r.random.IntN(r.options.Series)
	args := []string{
		"collection", "update-meta", "--yes", "--filter", fmt.Sprintf(`{"meta.id": {"$gte": %d, "$lt": %d}}`, first, first+10),
		"--update", fmt.Sprintf(`{"$set": {"meta.%s": %d}}`, check.EditedField, r.random.IntN(3)),
	}
	if r.random.IntN(2) == 0 {
		args = append(args, "--closed")
	}
	return r.command(ctx, args), nil
}

// repair lets an operator look for doubled measurements and remove them. There are none to remove.
func (r *run) repair(ctx context.Context) (bool, error) {
	return r.command(ctx, []string{"verify", "--repair", "--yes"}), nil
}

// command runs a command of an operator in the background, if none is running. It may fail while a server is away. It must not find
// anything wrong.
func (r *run) command(ctx context.Context, args []string) bool {
	if !r.operator.TryLock() {
		return false
	}
	r.note("an operator begins %s", strings.Join(args, " "))
	r.working.Go(func() {
		defer r.operator.Unlock()
		ctx, cancel := context.WithTimeout(ctx, commandPatience)
		defer cancel()
		c, err := harness.Start(r.options.Binary, r.settings, append(r.options.Args, args...)...)
		if err != nil {
			r.fault("%v", err)
			return
		}
		defer c.Kill()
		code, err := c.Wait(ctx)
		lines := strings.Split(strings.TrimSpace(c.Log()), "\n")
		last := lines[len(lines)-1]
		switch {
		case err != nil:
			r.note("the operator gave %s up: %v", args[0], err)
		case code == 0 || code == codeFailed:
			r.note("the operator's %s ended with code %d: %s", args[0], code, last)
		default:
			r.fault("%s ended with code %d:\n%s", strings.Join(args, " "), code, c.Log())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil && code == 0 {
			r.result.Commands++
		}
	})
	return true
}
