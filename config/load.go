package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileSuffix makes the name of a variable that holds the path of a file with the value.
const fileSuffix = "_FILE"

// Load reads the settings: lookup answers for one variable (os.LookupEnv), environ lists all as NAME=value (os.Environ)
// and is searched for misspelt names. It finds every problem, and reports them as an *Error.
func Load(lookup func(string) (string, bool), environ []string) (Config, error) {
	var c Config
	l, file := newFileLoader(lookup)
	if len(l.problems) > 0 && file.values == nil { // without the file everything would be missing
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
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return c, nil
}

// LoadDatabase is about the settings whose names begin so.
const (
	databasePrefix = "MONGODB_"
	servePrefix    = "SERVE_"
)

// LoadDatabase is Load for a program that talks to MongoDB and to nobody else: it reads the settings of MongoDB, of reading over HTTP, and of the log,
// and KAFKA_TOPICS where it is set. It looks at no other, and they are zero.
func LoadDatabase(lookup func(string) (string, bool), environ []string) (Config, error) {
	var c Config
	l, file := newFileLoader(lookup)
	for _, f := range fields(&c) {
		switch name := f.name(); {
		case strings.HasPrefix(name, databasePrefix), strings.HasPrefix(name, servePrefix), name == "LOG_LEVEL", name == "LOG_FORMAT":
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

// placeholders stand for the servers, which what events become has nothing to do with.
var placeholders = map[string]string{"KAFKA_BROKERS": "none:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://none", "MEMORY_LIMIT": "1GiB"}

// LoadEvents reads only the settings that say what events become: those of events, of buckets, and of how measurements are
// stored. No server need be named.
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
	lookup      func(string) (string, bool) // the environment, and then CONFIG_FILE
	problems    []Problem
	bad         map[string]bool // the variables with a problem: no other check looks at their values
	given       map[string]bool // the variables that are set, and not to the empty string
	found       map[string]bool // the variables that are set, also to the empty string where it has a meaning
}

func newLoader(lookup func(string) (string, bool)) loader {
	return loader{environment: lookup, lookup: lookup, bad: map[string]bool{}, given: map[string]bool{}, found: map[string]bool{}}
}

// newFileLoader also looks settings up in the file that CONFIG_FILE names.
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
		l.report([]Problem{{Variable: name, Value: f.shownText(text), Message: "begins and ends with a quote, which belongs to no value: leave the quotes out, also in an env file, which keeps them"}})
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

// resolve finds the text of a setting. A variable set to the empty string counts as not set, except where empty has a
// meaning of its own: compose files and charts pass on variables that nobody set.
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
		return "", false, "set both itself and as " + f.name() + fileSuffix + ": give one of them"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Sprintf("reading the file that %s names: %v", f.name()+fileSuffix, f.fileError(err))
	}
	text = strings.TrimRight(string(content), "\r\n")
	return text, text != "" || f.takesEmpty(), ""
}

// isQuoted reports whether a text begins and ends with the same quote. A password may.
func (f *field) isQuoted(text string) bool {
	_, isPassword := f.value.Interface().(Secret)
	n := len(text)
	return n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] && !isPassword
}

// fileError is why a file could not be read, and its path unless that may be the value itself, set where the name of its file
// belongs.
func (f *field) fileError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if ok && (mayHoldLogin(e.Path) || f.secret() && !filepath.IsAbs(e.Path)) {
		return e.Err
	}
	return err
}

// shownText is the text of a setting for messages.
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
