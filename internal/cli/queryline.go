package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// queryWords are the parsed arguments of query.
type queryWords struct {
	collection string // Empty means the one of KAFKA_TOPICS.
	conditions []condition
	fields     []string
}

// condition is an argument name=value or name!=value. It says what a part of the meta must be, or must not be.
type condition struct {
	word string
	path string
	not  bool
	// values are the possible values, each in all forms that the text may mean.
	values bson.A
}

// parseWords parses the arguments. The first is the collection unless it is a condition. All others without = are fields.
func parseWords(words []string) (q queryWords, err error) {
	for i, word := range words {
		name, value, isCondition := strings.Cut(word, "=")
		switch {
		case !isCondition && strings.ContainsAny(word, "<>"):
			return q, usageError{fmt.Errorf("%q: conditions are name=value, name=value,value or name!=value, on the meta. For other conditions on the meta "+
				"use --filter. For conditions on fields use --format json and a program such as jq", word)}
		case !isCondition && i == 0:
			q.collection = word
		case !isCondition:
			if word == "" || slices.Contains(q.fields, word) {
				return q, usageError{fmt.Errorf("the field name %q is empty, or is given more than once", word)}
			}
			q.fields = append(q.fields, word)
		default:
			c := condition{word: word}
			if c.path, c.not = strings.CutSuffix(name, "!"); c.path == "" {
				return q, usageError{fmt.Errorf("%q names no part of the meta: write name=value, such as sensor=s-17", word)}
			}
			if c.values, err = parseValues(value); err != nil {
				return q, usageError{fmt.Errorf("%s: %w", word, err)}
			}
			q.conditions = append(q.conditions, c)
		}
	}
	return q, nil
}

// parseValues parses the values after a =: one object or array of Extended JSON, or values separated by commas.
func parseValues(text string) (bson.A, error) {
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		v, err := parseJSON(text)
		if err != nil {
			return nil, fmt.Errorf("this is not Extended JSON: %w", err)
		}
		return bson.A{v}, nil
	}
	var all bson.A
	for _, one := range splitValues(text) {
		forms, err := formsOf(one)
		if err != nil {
			return nil, err
		}
		all = append(all, forms...)
	}
	return all, nil
}

// splitValues splits a text at commas outside of quotes.
func splitValues(text string) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"' && (quoted || i == begin):
			quoted = !quoted
		case text[i] == '\\' && quoted:
			i++
		case text[i] == ',' && !quoted:
			parts, begin = append(parts, text[begin:i]), i+1
		}
	}
	return append(parts, text[begin:])
}

// formsOf returns the values that a text may mean. A number, true, false and null may also mean the text as written. A text in
// quotes is only text.
func formsOf(text string) (bson.A, error) {
	if strings.HasPrefix(text, `"`) {
		var s string
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return nil, fmt.Errorf("%s is not a text in double quotes: %w", text, err)
		}
		return bson.A{s}, nil
	}
	switch text {
	case "true", "false":
		return bson.A{text == "true", text}, nil
	case "null":
		return bson.A{nil, text}, nil
	}
	if !json.Valid([]byte(text)) { // it is not a JSON number either
		return bson.A{text}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return bson.A{n, text}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return bson.A{text}, nil //nolint:nilerr // a number beyond all that is stored: only a text can be it
	}
	return bson.A{f, text}, nil
}

// filter combines the conditions with a filter in Extended JSON, in the terms of measurements. Empty means all.
func (q *queryWords) filter(metaField string, also bson.D) (bson.D, error) {
	if metaField == "" && len(q.conditions) > 0 {
		return nil, usageError{fmt.Errorf("%s: the measurements of this time series have no meta to filter by", q.conditions[0].word)}
	}
	all, clauses := bson.D{}, bson.A{}
	for _, c := range q.conditions {
		one := bson.D{{Key: c.fullPath(metaField), Value: c.operator()}}
		all, clauses = append(all, one...), append(clauses, one)
	}
	if len(also) > 0 {
		all, clauses = append(all, also...), append(clauses, also)
	}
	if len(clauses) > 1 {
		return bson.D{{Key: "$and", Value: clauses}}, nil
	}
	return all, nil
}

// fullPath returns the path in a measurement. It adds the name of the meta if the path does not begin with it.
func (c *condition) fullPath(metaField string) string {
	if c.path == metaField || strings.HasPrefix(c.path, metaField+".") {
		return c.path
	}
	return metaField + "." + c.path
}

// operator compares with the values. It compares a single value with $eq, so that an object is taken literally, whatever its
// names.
func (c *condition) operator() bson.D {
	switch one := len(c.values) == 1; {
	case one && c.not:
		return bson.D{{Key: "$ne", Value: c.values[0]}}
	case one:
		return bson.D{{Key: "$eq", Value: c.values[0]}}
	case c.not:
		return bson.D{{Key: "$nin", Value: c.values}}
	}
	return bson.D{{Key: "$in", Value: c.values}}
}
