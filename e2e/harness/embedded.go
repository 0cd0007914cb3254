package harness

import (
	"testing"

	"waterwheel/e2e/embedded"
)

// EmbeddedMongo starts an embedded MongoDB for one test.
func EmbeddedMongo(t *testing.T) *embedded.Mongo {
	t.Helper()
	m, err := embedded.StartMongo()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
