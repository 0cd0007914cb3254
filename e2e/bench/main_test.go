package bench

import (
	"context"
	"fmt"
	"os"
	"testing"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/naive"
)

// world is shared by all tests.
var world struct {
	servers *harness.Servers
	binary  string
}

// naiveArgument makes the program of this test run as the naive consumer.
const naiveArgument = "naive"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == naiveArgument {
		if err := naive.Run(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	defineFlags()
	harness.Main(m, "bench", func(ctx context.Context, s *harness.Shared) (err error) {
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		if world.servers, err = s.Servers(ctx, wanted.measure); err != nil {
			return err
		}
		fmt.Println("bench:", world.servers)
		return nil
	})
}
