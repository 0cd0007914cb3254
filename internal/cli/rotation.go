package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"waterwheel/config"
	"waterwheel/internal/kafka"
)

const (
	// rotationInterval is the time between two checks of the files with secrets.
	rotationInterval = 10 * time.Second
	// rotationSpread is the time over which the restarts of members are spread if they see a new secret at the same moment. While
	// all members of a group leave at once, the group reads nothing.
	rotationSpread = 20 * time.Second
)

// ErrRotated is the cause with which the context of run or serve ends if a secret has changed. Then run hands over in order, and is
// called again.
var ErrRotated = errors.New("starting again with the new secrets")

// rotation is a service that begins again each time that a secret changes in the file that holds it, NAME_FILE or CONFIG_FILE.
type rotation struct {
	load func(lookup func(string) (string, bool), environ []string) (config.Config, error)
	run  func(ctx context.Context, c config.Config, log *slog.Logger) error
}

// runRotating calls Run again each time that a secret changes.
func (p *Program) runRotating(ctx context.Context, c config.Config, log *slog.Logger) error {
	return p.rotate(ctx, rotation{config.Load, p.Run}, c, log)
}

// rotate runs a service until it ends for another reason than a changed secret.
func (p *Program) rotate(ctx context.Context, r rotation, c config.Config, log *slog.Logger) error {
	for {
		next, err := p.runUntilRotated(ctx, r, c, log)
		if err != nil || next == nil || ctx.Err() != nil {
			return err
		}
		c = *next
	}
}

// runUntilRotated runs a service until a secret has changed. It returns the settings with the new secret. Nil means that the service
// has ended for another reason.
func (p *Program) runUntilRotated(ctx context.Context, r rotation, c config.Config, log *slog.Logger) (next *config.Config, err error) {
	running, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if found, names := p.awaitRotation(running, r, &c, log); found != nil {
			next = found
			stop(fmt.Errorf("%s changed in its file: %w", strings.Join(names, ", "), ErrRotated))
		}
	})
	err = r.run(running, c, log)
	stop(nil)
	watching.Wait()
	return next, err
}

// awaitRotation reads the settings repeatedly until a secret differs. Nil means that ctx has ended before. It retries settings
// that cannot be read or that lack a secret, for example while a file is being written.
func (p *Program) awaitRotation(ctx context.Context, r rotation, c *config.Config, log *slog.Logger) (next *config.Config, names []string) {
	said, changed := false, false
	for wait := rotationInterval; kafka.Sleep(ctx, wait); {
		wait = rotationInterval
		read, err := r.load(p.Lookup, p.Environ)
		if err == nil {
			names, err = config.ChangedSecrets(c, &read)
		}
		if err != nil {
			if !said {
				log.Warn("the settings cannot be used: the secrets that were read before stay in use", "err", err)
			}
			said = true
			continue
		}
		said = false
		switch {
		case len(names) == 0:
			changed = false
		case changed:
			return &read, names
		default:
			changed, wait = true, rand.N(rotationSpread)
		}
	}
	return nil, nil
}
