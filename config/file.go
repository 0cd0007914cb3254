package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// fileVariable names the file of settings.
	fileVariable = "CONFIG_FILE"
	// topicsKey is the key of the part of the file with settings of single topics.
	topicsKey = "topics"
)

// file is the content of CONFIG_FILE: settings by name, and different settings for some topics.
type file struct {
	values   map[string]string
	sections []section
}

// section holds the settings of one topic, or of the topics that a pattern matches.
type section struct {
	topic  string
	values map[string]string
	lines  map[string]int // line numbers of the values
}

// byTopic reports whether a setting may differ by topic. Such settings define what events become, and how they are stored.
func byTopic(name string) bool {
	switch name = strings.TrimSuffix(name, fileSuffix); name {
	case "EVENT_MAX_BYTES":
		return false
	case "DLQ_TOPIC", "MONGODB_COLLECTION", "MONGODB_TIME_FIELD", "MONGODB_META_FIELD", "MONGODB_GRANULARITY", "MONGODB_BUCKET_MAX_SPAN",
		"MONGODB_BUCKET_ROUNDING", "MONGODB_EXPIRE_AFTER":
		return true
	}
	return strings.HasPrefix(name, "EVENT_") || strings.HasPrefix(name, "BUCKET_")
}

// readFile reads the file that CONFIG_FILE names. Without CONFIG_FILE it returns no settings.
func readFile(lookup func(string) (string, bool)) (f file, problems []Problem) {
	path, _ := lookup(fileVariable)
	if path == "" {
		return f, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		if reason, ok := errors.AsType[*fs.PathError](err); ok {
			err = reason.Err
		}
		return f, []Problem{{Variable: fileVariable, Value: path, Message: "cannot be read: " + err.Error()}}
	}
	r := fileReader{path: path, known: fields(&Config{})}
	r.read(content, &f)
	return f, r.problems
}

// fileReader reads a file of settings, and collects its problems.
type fileReader struct {
	path     string
	known    []field
	problems []Problem
}

func (r *fileReader) fail(line int, format string, args ...any) {
	where := r.path
	if line > 0 {
		where = fmt.Sprintf("%s:%d", r.path, line)
	}
	r.problems = append(r.problems, Problem{Variable: fileVariable, Value: where, Message: fmt.Sprintf(format, args...)})
}

func (r *fileReader) read(content []byte, f *file) {
	var document, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(content))
	err := documents.Decode(&document)
	for err == nil {
		if err = documents.Decode(&more); err == nil && !isNothing(&more) {
			r.fail(more.Line, "has more than one YAML document: remove the line ---, or this document")
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		r.fail(0, "is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if len(document.Content) == 0 {
		return // an empty file
	}
	values := map[string]string{}
	sound := r.each(document.Content[0], "the file", func(name string, key, value *yaml.Node) {
		if name == topicsKey {
			r.sections(value, f)
			return
		}
		r.setting(values, key, value)
	})
	if sound {
		f.values = values
	}
}

// isNothing reports whether a document has no content, as behind a line --- at the end.
func isNothing(document *yaml.Node) bool {
	return len(document.Content) == 0 || len(document.Content) == 1 && isNull(document.Content[0])
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// each calls do for the pairs of a mapping. It reports duplicate keys. False means that the node is not a mapping.
func (r *fileReader) each(n *yaml.Node, what string, do func(name string, key, value *yaml.Node)) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if isNull(n) {
		return true
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "%s must be a YAML mapping, with NAME: value on each line", what)
		return false
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			r.fail(key.Line, "%s appears twice", quoted(key.Value))
			continue
		}
		seen[key.Value] = true
		do(key.Value, key, n.Content[i+1])
	}
	return true
}

func (r *fileReader) sections(n *yaml.Node, f *file) {
	r.each(n, topicsKey, func(topic string, key, value *yaml.Node) {
		s := section{topic: topic, values: map[string]string{}, lines: map[string]int{}}
		r.each(value, "the part of topic "+topic, func(name string, key, value *yaml.Node) {
			if !byTopic(name) && r.knows(name) {
				r.fail(key.Line, "%s cannot differ by topic: write it above \"%s\", where it applies to all topics", name, topicsKey)
				return
			}
			s.lines[name] = key.Line
			r.setting(s.values, key, value)
		})
		if isPattern(topic) {
			if _, err := regexp.Compile(topic); err != nil {
				r.fail(key.Line, "topic %s is not a regular expression: %v", quoted(topic), err)
				return
			}
		}
		if isPattern(topic) || isTopic(topic) {
			f.sections = append(f.sections, s)
			return
		}
		r.fail(key.Line, "topic %s is %s", quoted(topic), topicRule)
	})
}

// setting records the value of one setting. A list becomes its values joined by commas.
func (r *fileReader) setting(into map[string]string, key, value *yaml.Node) {
	name := key.Value
	if !r.knows(name) {
		if name == "<<" {
			r.fail(key.Line, "merge keys (<<) are not supported: write the settings in each part")
			return
		}
		near := ""
		names := []string{topicsKey}
		for i := range r.known {
			names = append(names, r.known[i].name())
		}
		if near = nearest(name, names); near != "" {
			near = ": did you mean " + near + "?"
		}
		r.fail(key.Line, "%s is not a setting%s", quoted(name), near)
		return
	}
	text, ok := textOf(value)
	if !ok {
		r.fail(key.Line, "%s must be a text, a number, true or false, or a list of these", name)
		return
	}
	into[name] = text
}

// knows reports whether a name is a setting that is allowed in the file.
func (r *fileReader) knows(name string) bool {
	return name != fileVariable && slices.ContainsFunc(r.known, func(f field) bool { return name == f.name() || name == f.name()+fileSuffix })
}

// textOf returns a YAML value in the form of an environment variable.
func textOf(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		return textOf(n.Alias)
	case isNull(n):
		return "", true
	case n.Kind == yaml.ScalarNode:
		return strings.TrimRight(n.Value, "\r\n"), true // as from NAME_FILE
	case n.Kind != yaml.SequenceNode:
		return "", false
	}
	var all []string
	for _, one := range n.Content {
		if one.Kind != yaml.ScalarNode {
			return "", false
		}
		all = append(all, one.Value)
	}
	return strings.Join(all, ","), true
}

// over returns a lookup in the environment first, and then in values. If the environment has a setting, itself or as a file,
// values do not count for it.
func over(lookup func(string) (string, bool), values map[string]string) func(string) (string, bool) {
	if len(values) == 0 {
		return lookup
	}
	mayBeEmpty := map[string]bool{}
	for _, f := range fields(&Config{}) {
		mayBeEmpty[f.name()] = f.takesEmpty()
	}
	return func(name string) (string, bool) {
		setting := strings.TrimSuffix(name, fileSuffix)
		for _, variable := range []string{name, setting, setting + fileSuffix} {
			if text, found := lookup(variable); found && (text != "" || mayBeEmpty[variable]) {
				return lookup(name)
			}
		}
		value, is := values[name]
		return value, is
	}
}

// loadSections loads the settings of the topics that have their own. It loads only settings that wanted accepts.
func (l *loader) loadSections(c *Config, f file, wanted func(name string) bool) (own []loader) {
	for _, s := range f.sections {
		values := map[string]string{}
		for name, text := range f.values {
			if _, itself := s.values[strings.TrimSuffix(name, fileSuffix)]; !itself && s.values[name+fileSuffix] == "" {
				values[name] = text
			}
		}
		for name, text := range s.values {
			values[name] = text
			if ours, _ := l.environment(name); ours != "" && ours != text {
				c.hidden = append(c.hidden, name+" of topic "+s.topic)
			}
		}
		one := topicConfig{topic: s.topic, Config: *c}
		one.topics, one.Kafka.Topics = nil, []string{s.topic}
		of := newLoader(over(l.environment, values))
		for _, field := range fields(&one.Config) {
			if byTopic(field.name()) && wanted(field.name()) {
				field.value.SetZero()
				of.load(field)
			} else {
				of.given[field.name()] = l.given[field.name()]
			}
		}
		one.fillBucketing()
		one.fillPaths(of.found)
		c.topics = append(c.topics, one)
		own = append(own, of)
	}
	return own
}

// checkSections reports problems with the settings of single topics, except those that the general settings have too.
func (l *loader) checkSections(c *Config, f file, own []loader) {
	general := slices.Clone(l.problems)
	for i, s := range f.sections {
		own[i].report(check(&c.topics[i].Config, own[i].bad, own[i].given))
		for _, p := range own[i].problems {
			if slices.ContainsFunc(general, func(g Problem) bool { return g.Variable == p.Variable }) {
				continue
			}
			p.Message += fmt.Sprintf(" (%s, topic %s", fileVariable, s.topic)
			if line := s.lines[p.Variable]; line > 0 {
				p.Message += fmt.Sprintf(", line %d", line)
			}
			p.Message += ")"
			l.problems = append(l.problems, p)
		}
	}
}

// UnreadTopics returns the topics and patterns with settings of their own whose topics are not read. A pattern beside a pattern of
// KAFKA_TOPICS may match a topic that is created later.
func (c *Config) UnreadTopics() (unread []string) {
	for i := range c.topics {
		switch topic := c.topics[i].topic; {
		case isPattern(topic) && c.Kafka.HasPatterns():
		case isPattern(topic):
			if len(Pattern(topic).Of(c.Kafka.Topics)) == 0 {
				unread = append(unread, topic)
			}
		case !slices.Contains(c.Matching([]string{topic}), topic):
			unread = append(unread, topic)
		}
	}
	return unread
}
