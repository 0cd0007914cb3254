package check

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
)

// mostStages is how often events are searched in texts and lists of a sample.
const mostStages = 4

// unfold searches events in texts and lists until it finds them. It returns their proposer, and their form with the settings that
// find them, or with the reason why no settings do.
func (p *proposer) unfold() (*proposer, form) {
	o, q := p.base(), p
	for range mostStages {
		f := q.form(o)
		switch {
		case f.why != "" || f.text == "" && f.list == "":
			for _, path := range o.List {
				f.name += " in the list " + path
			}
			for _, path := range o.Parse {
				f.name += ", parsed from the text " + path
			}
			f.options = relative(f.options)
			return q, f
		case f.text != "":
			o.Parse = append(slices.Clone(o.Parse), f.text)
		case len(o.List) > 0:
			f.why = fmt.Sprintf("the readings are in the list %s inside the list %s, but a list inside a list cannot be split: send one list of readings, or one reading per record", f.list, o.List[0])
			return q, f
		default:
			o.List = []string{f.list}
		}
		next := p.staged(o, f.envelope)
		next.own = q.ownOf(f)
		if next.objects == 0 {
			f.why = "no settings that were tried find events in " + f.text + f.list
			return q, f
		}
		next.unfolded, q = true, next
	}
	f := q.form(o)
	f.why = "the events are in strings inside strings: send the JSON itself"
	return q, f
}

// ownOf returns the paths of fields that the elements of a form's list have themselves.
func (p *proposer) ownOf(f form) map[string]bool {
	if f.list == "" {
		return p.own
	}
	own := map[string]bool{}
	for path := range p.fields {
		if name, ok := strings.CutPrefix(path, f.list+"[]."); ok {
			own[view{root: f.envelope}.absolute(name)] = true
		}
	}
	return own
}

// relative converts the paths of stages from absolute ones to settings relative to the root.
func relative(o measurement.Options) measurement.Options {
	if o.Root == "" {
		return o
	}
	return withPaths(o, func(path string) string {
		if inside, ok := strings.CutPrefix(path, o.Root+"."); ok {
			return inside
		}
		return "/" + path
	})
}

// absolute converts the paths of stages from settings relative to the root to absolute ones.
func absolute(o measurement.Options) measurement.Options {
	return withPaths(o, func(path string) string { return view{root: o.Root}.absolute(path) })
}

// withPaths changes the paths of the stages that run before the root is taken.
func withPaths(o measurement.Options, change func(path string) string) measurement.Options {
	for _, list := range []*[]string{&o.Parse, &o.List, &o.Skip} {
		*list = slices.Clone(*list)
		for i, text := range *list {
			path := strings.TrimPrefix(text, "!") // of a condition, which may go on with a value
			(*list)[i] = text[:len(text)-len(path)] + change(path)
		}
	}
	return o
}

// staged returns the proposer of the events that stages make of the records. The paths of the stages are absolute. Inherited
// fields of lists go into the envelope.
func (p *proposer) staged(o measurement.Options, envelope string) *proposer {
	stages := measurement.Options{
		Format: o.Format, Schema: o.Schema, Descriptors: o.Descriptors, Message: o.Message, Ask: o.Ask, Decimals: o.Decimals, Compression: o.Compression, Framing: o.Framing, DottedNames: o.DottedNames, MaxBytes: o.MaxBytes, MetaFrom: measurement.MetaFromNone,
		Root: envelope, Parse: o.Parse, List: o.List, Skip: o.Skip, FieldName: o.FieldName, FieldValue: o.FieldValue, Rename: o.Rename,
	}
	e := newEvidence(p.topic, p.isLog)
	q := &proposer{evidence: e, kept: p.kept, current: p.current, bucketing: p.bucketing}
	decoder, err := measurement.New(relative(stages))
	if err != nil {
		return q
	}
	for i := range p.kept.list {
		r := p.kept.list[i].Record
		r.Value = jsonOf(decoder.Events(r))
		e.add(p.kept.list[i].partition, &r)
	}
	e.encodings = p.encodings
	for path, d := range p.decimals {
		e.decimals[path] = d
	}
	return q
}

// jsonOf formats documents as a JSON array.
func jsonOf(documents [][]byte) []byte {
	list := []json.RawMessage{}
	for _, document := range documents {
		if text, err := bson.MarshalExtJSON(bson.Raw(document), false, false); err == nil {
			list = append(list, text)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return text
}

// holdsJSON reports whether a text of an event is a JSON object or array, directly or in base64.
func holdsJSON(text string) bool {
	if isBraced(text) {
		return json.Valid([]byte(text))
	}
	const shortest = 8
	if len(text) < shortest || text[0] != 'e' && text[0] != 'W' && text[0] != 'I' && text[0] != 'C' {
		return false // the base64 of a brace, a bracket or white space begins with one of these
	}
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		if decoded, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil {
			return false
		}
	}
	return isBraced(string(bytes.TrimSpace(decoded))) && json.Valid(decoded)
}

// texts recognizes events whose values lie in a text that holds JSON.
func texts(f form) (form, bool) {
	if f.view.measures() {
		return f, false
	}
	for _, l := range f.view.scalars() {
		if l.documents == l.texts && l.texts > 0 && l.seen*10 >= f.view.n*9 && l.texts*2 > l.seen && settable(l.path) {
			f.text = f.view.absolute(l.path)
			return f, true
		}
	}
	return f, false
}

// readsNumbers reports whether texts that are numbers can be read as numbers. That requires that every field with such texts is
// measured.
func (p *proposer) readsNumbers(o measurement.Options) bool {
	found := false
	for _, f := range p.list() {
		if f.numerals+f.commas == 0 || !p.isField(o, f.path) {
			continue
		}
		isMeasured := f.numbers > 0 || f.pointed > 0 || in("value val", plain(f.path))
		if f.commas > 0 || f.numerals != f.texts || !isMeasured || !p.isQuantity(f) {
			return false
		}
		found = true
	}
	return found
}

// onlyObject returns the object that holds all fields of events found in a list or text. Empty means that there is no such
// object.
func (p *proposer) onlyObject(o measurement.Options) (name string) {
	if !p.unfolded {
		return ""
	}
	area := view{evidence: p.evidence, root: o.Root}
	for _, top := range area.names() {
		switch path := area.absolute(top); {
		case !p.isField(o, path):
		case name != "" || p.at(path).objects < p.at(path).seen || p.holdsTaken(o, path) || !settable(top):
			return ""
		default:
			name = top
		}
	}
	return name
}
