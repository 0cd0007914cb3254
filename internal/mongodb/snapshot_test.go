package mongodb

import (
	"testing"
	"time"
)

// TestARefusedMomentIsAskedForAgain checks that an update of the cluster needs no restart of consumers.
func TestARefusedMomentIsAskedForAgain(t *testing.T) {
	now := time.Now()
	d := Database{server: Server{Sharded: true}}
	if !d.readsAtOnce(now) {
		t.Error("nothing was refused, and moments are not asked for")
	}
	d.snapshotRefused.Store(now.Unix())
	if d.readsAtOnce(now.Add(askAgainAfter / 2)) {
		t.Error("a refusal is forgotten at once")
	}
	if !d.readsAtOnce(now.Add(askAgainAfter + 2*time.Second)) {
		t.Error("a refusal counts for ever")
	}
}
