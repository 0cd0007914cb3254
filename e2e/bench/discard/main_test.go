package discard_test

import (
	"os"
	"testing"

	"waterwheel/e2e/bench/discard"
)

func TestMain(m *testing.M) {
	discard.Main()
	os.Exit(m.Run())
}
