package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"waterwheel/internal/measurement"
)

// fileSuffix is the suffix of a variable that holds the path of a file with the value.
const fileSuffix = "_FILE"

// Load reads the settings. lookup returns one variable (os.LookupEnv), and environ lists all as NAME=value (os.Environ). Load
// searches environ for misspelt names. It finds every problem, and reports them as an *Error.
func Load(lookup func(string) (string, bool), environ []string) (Config, error) {
	var c Config
	l, file := newFileLoader(lookup)
	if len(l.problems) > 0 && file.values == nil { // without the file every setting would be reported as missing
		return Config{}, &Error{Problems: l.problems}
	}
	for _, f := range fields(&c) {
		l.load(f)
	}
	misspelt, _ := unknown(environ, fields(&c))
	l.report(misspelt)
	c.fill(os.DirFS("/"))
	c.fillPaths(l.found)
	own := l.loadSections(&c, file, func(string) bool { return true })
	l.report(check(&c, l.bad, l.given))
	l.checkSections(&c, file, own)
	c.unread = c.UnreadTopics()
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return c, nil
}

// These are the prefixes of the settings that LoadDatabase reads.
const (
	databasePrefix = "MONGODB_"
	servePrefix    = "SERVE_"
)

// LoadDatabase is Load for a program that only talks to MongoDB. It reads the settings of MongoDB, of reading over HTTP, and of
// the log, and KAFKA_TOPICS if it is set. It ignores all others, which are zero.
func LoadDatabase(lookup func(string) (string, bool), environ []string) (Config, error) {
	var c Config
	l, file := newFileLoader(lookup)
	for _, f := range fields(&c) {
		switch name := f.name(); {
		case strings.HasPrefix(name, databasePrefix), strings.HasPrefix(name, servePrefix), name == "LOG_LEVEL", name == "LOG_FORMAT", name == "START_TIMEOUT":
			l.load(f)
		case name == "KAFKA_TOPICS":
			if _, found, _ := l.resolve(&f); found {
				l.load(f)
			}
		}
	}
	misspelt, _ := unknown(environ, fields(&c))
	l.report(slices.DeleteFunc(misspelt, func(p Problem) bool {
		return !strings.HasPrefix(p.Variable, databasePrefix) && !strings.HasPrefix(p.Variable, servePrefix)
	}))
	c.fill(os.DirFS("/"))
	for _, of := range l.loadSections(&c, file, func(name string) bool { return strings.HasPrefix(name, databasePrefix) }) {
		l.report(of.problems)
	}
	k := checker{Config: &c, bad: l.bad}
	k.uri()
	k.database()
	k.serve()
	l.report(k.problems)
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return c, nil
}

// placeholders replace the settings of servers, which have no influence on what events become.
var placeholders = map[string]string{"KAFKA_BROKERS": "none:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://none", "MEMORY_LIMIT": "1GiB"}

// LoadEvents reads only the settings that define the measurements and buckets of events. Settings of servers may be missing.
func LoadEvents(lookup func(string) (string, bool), environ []string) (Config, error) {
	matters := func(name string) bool {
		if name == fileVariable {
			return true
		}
		name = strings.TrimSuffix(name, fileSuffix)
		return strings.HasPrefix(name, "EVENT_") || strings.HasPrefix(name, "SCHEMA_") || strings.HasPrefix(name, "BUCKET_") || strings.HasPrefix(name, "MONGODB_BUCKET_") ||
			slices.Contains([]string{"MONGODB_TIME_FIELD", "MONGODB_META_FIELD", "MONGODB_GRANULARITY"}, name)
	}
	var mattering []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); matters(name) {
			mattering = append(mattering, entry)
		}
	}
	return Load(func(name string) (string, bool) {
		if text, ok := placeholders[name]; ok {
			return text, true
		}
		if !matters(name) {
			return "", false
		}
		return lookup(name)
	}, mattering)
}

// loader reads one setting after the other.
type loader struct {
	environment func(string) (string, bool)
	lookup      func(string) (string, bool) // looks into the environment, and then into CONFIG_FILE
	problems    []Problem
	bad         map[string]bool // variables with a problem: no other check uses their values
	given       map[string]bool // variables that are set to a non-empty string
	found       map[string]bool // variables that are set, also to the empty string if that has a meaning
}

func newLoader(lookup func(string) (string, bool)) loader {
	return loader{environment: lookup, lookup: lookup, bad: map[string]bool{}, given: map[string]bool{}, found: map[string]bool{}}
}

// newFileLoader returns a loader that also reads the file that CONFIG_FILE names.
func newFileLoader(lookup func(string) (string, bool)) (loader, file) {
	l := newLoader(lookup)
	f, problems := readFile(lookup)
	l.report(problems)
	l.lookup = over(lookup, f.values)
	return l, f
}

func (l *loader) report(problems []Problem) {
	for _, p := range problems {
		l.bad[p.Variable] = true
	}
	l.problems = append(l.problems, problems...)
}

// load sets one field from its variable, its file or its default.
func (l *loader) load(f field) {
	name := f.name()
	text, found, problem := l.resolve(&f)
	if problem != "" {
		l.report([]Problem{{Variable: name, Message: problem}})
		return
	}
	if !found && f.required() {
		l.report([]Problem{{Variable: name, Message: "is required: " + f.summary()}})
		return
	}
	if f.isQuoted(text) {
		l.report([]Problem{{Variable: name, Value: f.shownText(text), Message: "begins and ends with a quote: remove the quotes. In an env file of Docker, quotes become a part of the value"}})
		return
	}
	l.given[name], l.found[name] = found && text != "", found
	if !found {
		text = f.fallback()
	}
	if message := f.set(text); message != "" {
		l.report([]Problem{{Variable: name, Value: f.shownText(text), Message: message}})
	}
}

// resolve finds the text of a setting. A variable set to the empty string counts as not set, unless the empty string has a
// meaning of its own. The reason is that compose files and charts pass on unset variables as empty ones.
func (l *loader) resolve(f *field) (text string, found bool, problem string) {
	text, found = l.lookup(f.name())
	if text == "" && !f.takesEmpty() {
		found = false
	}
	path, _ := l.lookup(f.name() + fileSuffix)
	if path == "" {
		return text, found, ""
	}
	if found {
		return "", false, "cannot be combined with " + f.name() + fileSuffix + ": set only one of them"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Sprintf("cannot read the file that %s names: %v", f.name()+fileSuffix, f.fileError(err))
	}
	if text = strings.TrimRight(string(content), "\r\n"); text == "" && !f.takesEmpty() {
		return "", false, "the file that " + f.name() + fileSuffix + " names is empty: write the value into it"
	}
	return text, true, ""
}

// isQuoted reports whether a text begins and ends with the same quote. For a password it returns false, because a password may do
// so.
func (f *field) isQuoted(text string) bool {
	_, isPassword := f.value.Interface().(Secret)
	n := len(text)
	return n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] && !isPassword
}

// fileError returns why a file could not be read. It omits the path if that may be the secret itself, set in place of a path.
func (f *field) fileError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if ok && (mayHoldLogin(e.Path) || f.secret() && !filepath.IsAbs(e.Path)) {
		return e.Err
	}
	return err
}

// shownText returns the text of a setting for messages. It masks secrets, and truncates long texts.
func (f *field) shownText(text string) string {
	const longest = 100
	switch {
	case f.secret() || mayHoldLogin(text):
		return masked
	case len(text) > longest:
		return fmt.Sprintf("%q…", text[:longest])
	case strings.ContainsAny(text, " \t\r\n\"") || text == "":
		return fmt.Sprintf("%q", text)
	}
	return text
}

// fill sets the defaults that no tag can hold.
func (c *Config) fill(root fs.FS) {
	if c.MongoDB.Database == "" {
		c.MongoDB.Database = c.MongoDB.URI.Database()
	}
	if c.MongoDB.Database == "" {
		c.MongoDB.Database = "waterwheel"
	}
	c.fillBucketing()
	if c.Memory.Limit == 0 {
		c.Memory.Limit = Size(shareOf(availableMemory(root)))
	}
}

func (c *Config) fillBucketing() {
	if c.MongoDB.Granularity == "" && c.MongoDB.BucketMaxSpan == 0 && c.MongoDB.BucketRounding == 0 {
		c.MongoDB.Granularity = "seconds"
	}
}

// fillPaths sets the default paths of the event format, unless a setting names others.
func (c *Config) fillPaths(found map[string]bool) {
	byID := measurement.Options{Format: measurement.Format(c.Event.Format), Schema: c.Event.Schema, Descriptors: c.Event.Descriptors.Path}
	if byID.NeedsRegistry() && !found["EVENT_FRAMING"] {
		c.Event.Framing = string(measurement.Confluent)
	}
	paths, known := measurement.DefaultPaths(measurement.Format(c.Event.Format))
	if !known {
		return
	}
	if !found["EVENT_TIME_FIELD"] {
		c.Event.TimeField = paths.TimeField
	}
	if !found["EVENT_META_FIELD"] && !found["EVENT_META_FIELDS"] && c.Event.MetaFrom == string(measurement.MetaFromValue) {
		c.Event.MetaFields = paths.MetaFields
	}
	if !found["EVENT_FIELDS"] {
		c.Event.Fields = paths.Fields
	}
}

// unknownMemory is the assumed memory if its size is unknown.
const unknownMemory = 1 << 30

// noLimit is about the number that cgroup v1 writes for "no limit".
const noLimit = 1 << 60

// MemoryRoom is how much more than MEMORY_LIMIT the process may use, at any load. It covers what Go's limit does not count, such
// as the program itself and the kernel's buffers. It also covers what exceeds the limit until the next garbage collection. A
// container needs this much more memory. The number is measured (e2e/hostile).
const MemoryRoom = 64 << 20

// leastMemory is the smallest memory limit that is useful.
const leastMemory = 32 << 20

// shareOf returns the default MEMORY_LIMIT of a process that may use at most available bytes.
func shareOf(available int64) int64 {
	return max(min(available/4*3, available-MemoryRoom), leastMemory)
}

// availableMemory returns how much memory the process may use. It is the smallest limit of its cgroup (version 2 or 1) and that
// cgroup's parents. Without a limit it is the machine's memory. root is the root file system.
func availableMemory(root fs.FS) int64 {
	limit := machineMemory(root)
	cgroups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(cgroups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			limit = cgroupLimit(root, "sys/fs/cgroup", parts[2], "memory.max", limit)
		case strings.Contains(","+parts[1]+",", ",memory,"):
			limit = cgroupLimit(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes", limit)
		}
	}
	return limit
}

// cgroupLimit returns the minimum of limit and the limits in the files of the group and its parents. In a container the group's
// path may be the host's and not exist. Then the root of the mount is the group.
func cgroupLimit(root fs.FS, mount, group, file string, limit int64) int64 {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(mount, dir, file))
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 && n < noLimit {
			limit = min(limit, n)
		}
		if dir == "/" {
			return limit
		}
	}
}

// machineMemory returns MemTotal of /proc/meminfo.
func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return unknownMemory
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kib > 0 {
				return kib << 10
			}
		}
	}
	return unknownMemory
}
