package main

import (
	"bytes"
	"os"
	"testing"

	"waterwheel/internal/cli"
	"waterwheel/internal/leak"
)

// These are the exit codes of the program.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFound  = 3
)

// asProgram makes the test binary run as the program, for tests that kill it.
const asProgram = "CONSUMER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	leak.Main(m)
}

// try runs a command line of the program in an environment and returns the exit code and both outputs.
func try(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &cli.Program{
		Stdout: &out, Stderr: &err, Version: version, Run: run,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}
	for name, value := range env {
		p.Environ = append(p.Environ, name+"="+value)
	}
	code = p.Execute(t.Context(), args)
	return code, out.String(), err.String()
}

// settings returns the minimum settings for a start.
func settings() map[string]string {
	return map[string]string{
		"KAFKA_BROKERS": "kafka:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://u:geheim@mongo/db", "MEMORY_LIMIT": "1GiB",
	}
}
