package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// These tests run the commands of the documents literally, in a shell. Only placeholders are replaced.

// documents are the documents with commands for operators.
var documents = []string{"../README.md", "../docs/runbook.md", "../docs/exactly-once.md"}

// kafkaClasses maps scripts of Kafka's distribution to the classes they run.
var kafkaClasses = map[string]string{
	"kafka-acls.sh":            "org.apache.kafka.tools.AclCommand",
	"kafka-configs.sh":         "kafka.admin.ConfigCommand",
	"kafka-consumer-groups.sh": groupTool,
	"kafka-delete-records.sh":  "org.apache.kafka.tools.DeleteRecordsCommand",
	"kafka-dump-log.sh":        "org.apache.kafka.tools.DumpLogSegments",
	"kafka-topics.sh":          "org.apache.kafka.tools.TopicCommand",
	"kafka-transactions.sh":    "org.apache.kafka.tools.TransactionsCommand",
}

// commandsOf returns the distinct commands of the documents that begin with a word, in order. It finds them in code within the
// text and in blocks. A program's name alone is no command.
func commandsOf(t *testing.T, word string) (found []string) {
	t.Helper()
	begin := regexp.MustCompile(`^(bin/)?` + word)
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var code []string
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if block, ok := strings.CutPrefix(line, "    "); ok {
				block, _, _ = strings.Cut(block, " #")
				code = append(code, block)
			}
			for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
				code = append(code, span[1])
			}
		}
		for _, c := range code {
			if c = strings.Join(strings.Fields(c), " "); begin.MatchString(c) && strings.Contains(c, " ") && !slices.Contains(found, c) {
				found = append(found, c)
			}
		}
	}
	return found
}

// shell runs a command of a document as its reader would, in the consumer's environment, with programs of the names given.
func (s *stream) shell(command string, programs map[string][]string) (code int, out string) {
	s.t.Helper()
	dir := s.t.TempDir()
	for name, words := range programs {
		script := "#!/bin/sh\nexec '" + strings.Join(words, "' '") + "' \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-c", command)
	run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	for name, value := range s.settings {
		run.Env = append(run.Env, name+"="+value)
	}
	run.WaitDelay = time.Second
	output, err := run.CombinedOutput()
	if err != nil && run.ProcessState == nil {
		s.t.Fatal(err)
	}
	return run.ProcessState.ExitCode(), string(output)
}

// TestDocumentsCommandsOfKafka: Kafka's own tools take every command, and do what they are given for.
func TestDocumentsCommandsOfKafka(t *testing.T) {
	tool := toolCommand(t)
	t.Parallel()
	commands := commandsOf(t, `kafka-[a-z-]+\.sh`)
	if len(commands) < 9 {
		t.Fatalf("only these commands were found:\n%s", strings.Join(commands, "\n"))
	}
	s := newStream(t, 1)
	s.storing(t, 100)
	offsets := filepath.Join(t.TempDir(), "offsets.json")
	if err := os.WriteFile(offsets, fmt.Appendf(nil, `{"partitions":[{"topic":%q,"partition":0,"offset":0}]}`, s.topic+".dlq"), 0o600); err != nil {
		t.Fatal(err)
	}
	programs := map[string][]string{}
	for name, class := range kafkaClasses {
		programs[name] = append(slices.Clone(tool), class)
	}
	c := s.start()
	if err := c.AwaitReady(within(t, 40*time.Second)); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(commands, func(a, b string) int { // resets come last, without members
		return strings.Compare(fmt.Sprint(strings.Contains(a, "--reset")), fmt.Sprint(strings.Contains(b, "--reset")))
	})
	for _, command := range commands {
		if strings.Contains(command, "--reset") && c.Running() {
			s.terminate(c)
		}
		s.tryKafka(command, programs, strings.NewReplacer(
			"--group waterwheel ", "--group "+s.group()+" ", "--topic measurements", "--topic "+s.topic, "TOPIC", s.topic,
			"OFFSETS.json", offsets, "SEGMENT", segment(tool[len(tool)-1], s.topic)))
	}
}

// tryKafka runs a command of Kafka's tools, which do not tell all errors by their exit code.
func (s *stream) tryKafka(command string, programs map[string][]string, reader *strings.Replacer) {
	s.t.Helper()
	if name, _, _ := strings.Cut(command, " "); programs[name] == nil {
		s.t.Errorf("%s: what does %s run?", command, name)
		return
	}
	if strings.HasPrefix(command, "kafka-dump-log.sh") && !strings.Contains(reader.Replace("SEGMENT"), "/") {
		s.t.Logf("not run, the broker's files are not at hand: %s", command)
		return
	}
	code, out := s.shell(reader.Replace(command), programs)
	// What looks at every topic stumbles over one that another test deletes meanwhile.
	for try := 0; try < 10 && !strings.Contains(command, "--topic") && strings.Contains(out, "UnknownTopicOrPartitionException"); try++ {
		code, out = s.shell(reader.Replace(command), programs)
	}
	s.t.Logf("%s\n%s", command, out)
	if strings.HasPrefix(command, "kafka-acls.sh") && strings.Contains(out, "No Authorizer is configured") {
		return // it was understood
	}
	if wrong := regexp.MustCompile(`Exception|Error|not a recognized option|at most one of|Option +Description`).FindString(out); code != 0 || wrong != "" {
		s.t.Errorf("%s ended with code %d:\n%s", command, code, out)
	}
}

// segment is the first segment of a topic's partition 0 in the folder of a broker, if that is how the folder looks.
func segment(dir, topic string) string {
	path := filepath.Join(dir, "1", "data", topic+"-0", "00000000000000000000.log")
	if _, err := os.Stat(path); err != nil {
		return "SEGMENT"
	}
	return path
}

// TestDocumentsCommandsOfTheProgram: the program takes every command of its own, and its pages are where they are said to be.
func TestDocumentsCommandsOfTheProgram(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.storing(t, 100)
	c := s.start("ROLLUP_LEVELS", "1h")
	if err := c.AwaitReady(within(t, 40*time.Second)); err != nil {
		t.Fatal(err)
	}
	pages := commandsOf(t, "curl")
	for _, command := range pages {
		code, out := s.shell(strings.ReplaceAll(command, "localhost:9464", c.Address()), nil)
		if code != 0 || strings.Contains(out, "404") || out == "" {
			t.Errorf("%s ended with code %d:\n%s", command, code, out)
		}
	}
	s.terminate(c)

	commands := slices.DeleteFunc(commandsOf(t, "waterwheel"), func(c string) bool {
		return strings.HasSuffix(c, "waterwheel run") || strings.HasSuffix(c, "waterwheel serve") || // they end when they are asked to
			strings.Contains(c, "waterwheel query") // the examples of reading run that
	})
	if len(commands) < 20 || len(pages) < 2 {
		t.Fatalf("only these commands were found:\n%s", strings.Join(append(pages, commands...), "\n"))
	}
	for _, command := range commands {
		s.tryOwn(command)
	}
}

// tryOwn runs a command of the program.
func (s *stream) tryOwn(command string) {
	s.t.Helper()
	words := strings.NewReplacer("--sample -", `--sample - <<< '{"time": 1700000000, "meta": "a"}'`, "bin/waterwheel", "waterwheel", "--topic measurements", "--topic "+s.topic,
		"events.dlq/0/12", s.topic+".dlq/0/0", "events/3/182", s.topic+"/0/0", "waterwheel-2", s.group()+"-2").Replace(command)
	code, out := s.shell(words, map[string][]string{"waterwheel": {world.binary}})
	s.t.Logf("%s: code %d\n%s", command, code, out)
	// One letter's place and a level are examples; a server for tests has no privileges to look at, and no views.
	example := strings.Contains(command, "/0/12") || strings.Contains(command, "/3/182") || strings.Contains(command, "set-granularity") ||
		strings.Contains(command, "rollup drop")
	if code != 0 && code != 3 && (code != 1 || !example) || strings.Contains(out, "panic: ") {
		s.t.Errorf("%s ended with code %d:\n%s", command, code, out)
	}
}
