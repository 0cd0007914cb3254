package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnotherSecretIsTakenUp checks that the process hands over and continues with the new value when the file of MONGODB_URI
// changes. Records that arrive in between are stored once.
func TestAnotherSecretIsTakenUp(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	old, before := world.servers.LinkMongo(t)
	_, after := world.servers.LinkMongo(t)
	path := filepath.Join(t.TempDir(), "uri")
	write := func(uri string) {
		if err := os.WriteFile(path, []byte(uri+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(before)
	s.settings = s.settings.With("MONGODB_URI", "", "MONGODB_URI_FILE", path)
	consumer := s.start()
	load := s.startLoad(s.generator(50), 100)
	s.awaitStored(consumer, time.Minute)
	write(after)
	for ctx := within(t, 2*time.Minute); strings.Count(consumer.Log(), "msg=starting") < 2; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || !consumer.Running() {
			t.Fatalf("it does not begin again\n%s", consumer.Log())
		}
	}
	old.Refuse()
	s.awaitStored(consumer, time.Minute) // its metrics have started anew
	load.stop()
	s.awaitCommitted(consumer, 2*time.Minute)
	s.terminate(consumer)
	s.check()
	if log := consumer.Log(); !strings.Contains(log, "MONGODB_URI changed in its file") {
		t.Errorf("the log does not say why it began again:\n%s", log)
	}
}
