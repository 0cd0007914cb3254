package measurement

import (
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// maxGrowth bounds the size of the events of one document, with all that they inherit, to this multiple of EVENT_MAX_BYTES.
const maxGrowth = 8

// stages turn one document of a record into its events, before the rules for time, meta and fields apply. They run in this order:
// nest dotted names, parse texts that hold JSON, take lists apart, skip events, name values by another field, rename fields. Each
// stage takes and returns BSON, so every format can use all of them.
//
// The order of the events depends only on the document and the settings, so an event has the same position each time.
type stages struct {
	options *Options
	active  bool // at least one stage is set

	parse  []edit
	lists  []edit
	listed []listPath
	root   []string // path of the object that gets the members of a list's elements
	before []condition
	skip   []condition
	tall   tall
	rename []edit

	reader *jsonReader // reads the texts in the document
	nester nester      // for the document
	inner  nester      // for one event

	// The state of the document that is open:
	document []byte // nested and parsed
	dotted   bool   // a name in it may have a dot
	envelope []byte // the document without its lists
	found    []rawbson.Element
	taken    int
	elements []listElement
	skipped  bool // the document has no event
	whole    bool // the document is the event
	only     *listElement

	parsed, merged, parsedEvent, named, renamed []byte
	members                                     [][]byte
}

// listPath is a list that is taken apart.
type listPath struct{ text, path string }

// listElement is an element of one of the lists.
type listElement struct {
	rawbson.Element
	list, index int
}

// newStages compiles valid options.
func newStages(o *Options) *stages {
	s := &stages{options: o, reader: newJSONReader(o.Format == ExtJSON)}
	for _, path := range o.Parse {
		growEdit(&s.parse, o.absolute(path)).kind = editParse
	}
	for i, path := range o.List {
		s.listed = append(s.listed, listPath{path, o.absolute(path)})
		leaf := growEdit(&s.lists, o.absolute(path))
		leaf.kind, leaf.index = editTake, i
	}
	if o.Root != "" && slices.ContainsFunc(s.listed, func(l listPath) bool { return isPathPrefix(o.Root, l.path) }) {
		s.root = strings.Split(o.Root, ".")
	}
	for _, text := range o.Skip {
		c, _ := parseCondition(text)
		c.names = strings.Split(o.absolute(c.path), ".")
		if c.isOn(s.listed) {
			s.before = append(s.before, c)
		} else {
			s.skip = append(s.skip, c)
		}
	}
	s.tall = newTall(o)
	for _, text := range o.Rename {
		from, to := splitRename(text)
		leaf := growEdit(&s.rename, o.absolute(from))
		leaf.kind, leaf.to = editName, []byte(to)
	}
	s.found = make([]rawbson.Element, max(1, len(s.listed)))
	s.active = len(s.parse)+len(s.lists)+len(s.before)+len(s.skip)+len(s.rename) > 0 || s.tall.name != nil
	return s
}

// open nests and parses a document, and takes its lists apart. The caller must not change the document until the next one is
// opened.
func (s *stages) open(document []byte, dotted bool) *DecodeError {
	s.elements, s.skipped, s.whole = s.elements[:0], false, false
	var err *DecodeError
	if s.document, s.dotted, err = s.prepare(document, dotted, &s.nester, &s.parsed); err != nil {
		return err
	}
	if s.skipped = s.meets(s.before, s.document); s.skipped {
		return nil
	}
	if s.whole = len(s.lists) == 0 || s.isNullRoot(); s.whole {
		return nil
	}
	clear(s.found)
	if _, err = s.edited(&s.envelope, s.document, s.lists); err != nil {
		return err
	}
	return s.unnest()
}

// prepare nests the names of a document and parses texts in it.
func (s *stages) prepare(document []byte, dotted bool, n *nester, buffer *[]byte) (out []byte, stillDotted bool, err *DecodeError) {
	if document, dotted, err = n.undot(s.options, document, dotted); err != nil || len(s.parse) == 0 {
		return document, dotted, err
	}
	s.reader.dotted = false
	if document, err = s.edited(buffer, document, s.parse); err != nil {
		return nil, false, err
	}
	return n.undot(s.options, document, dotted || s.reader.dotted)
}

// isNullRoot reports whether the root or an object on the way to it is null. Such a document is skipped like a tombstone.
func (s *stages) isNullRoot() bool {
	if s.options.Root == "" {
		return false
	}
	names := strings.Split(s.options.Root, ".")
	for i := range names {
		if e := lookUp(s.document, names[:i+1]); e.Kind == 0 || e.Kind == bson.TypeNull {
			return e.Kind == bson.TypeNull
		}
	}
	return false
}

// unnest collects the elements of the lists that were found.
func (s *stages) unnest() *DecodeError {
	missing := 0
	for i := range s.listed {
		switch found := &s.found[i]; found.Kind {
		case 0:
			missing++
		case bson.TypeNull:
		case bson.TypeEmbeddedDocument:
			s.elements = append(s.elements, listElement{*found, i, 0})
		case bson.TypeArray:
			first := len(s.elements)
			for e := range rawbson.All(rawbson.Content(found.Value)) {
				s.elements = append(s.elements, listElement{e, i, len(s.elements) - first})
			}
		default:
			return newError(NotObject, s.listed[i].path, "%s is not a list, but EVENT_LIST=%s expects one: send a list of objects, or correct the setting",
				quoteValue(found.Kind, found.Value), s.listed[i].text)
		}
	}
	if missing == len(s.listed) {
		if s.skipped = s.meets(s.skip, s.document); s.skipped {
			return nil
		}
		wayOut := "or skip such events by another field with EVENT_SKIP"
		if len(s.listed) == 1 {
			wayOut = "or set EVENT_SKIP='!" + s.listed[0].text + "' to skip events without a list"
		}
		return newError(MissingField, s.listed[0].path, "the event has no list, but EVENT_LIST=%s expects one: send one, %s", strings.Join(s.options.List, ","), wayOut)
	}
	if len(s.elements) > timeseries.MaxParts {
		return newError(TooLarge, s.listed[0].path, "the event's lists have %d elements, more than %d: send several records", len(s.elements), timeseries.MaxParts)
	}
	if size := len(s.elements)*len(s.envelope) + len(s.document); size > maxGrowth*s.options.MaxBytes {
		return newError(TooLarge, s.listed[0].path, "the event's %d elements take %d bytes, because each element gets a copy of the fields outside the list. This is more than %d times EVENT_MAX_BYTES = %d: "+
			"send fewer fields outside the list, or several records", len(s.elements), size, maxGrowth, s.options.MaxBytes)
	}
	s.skipped = len(s.elements) == 0
	return nil
}

// events returns the number of events in the open document.
func (s *stages) events() int {
	switch {
	case s.skipped:
		return 0
	case s.whole:
		return 1
	}
	return len(s.elements)
}

// event returns one event of the open document. The event is valid until the next call. skip means that the event is neither
// stored nor an error.
func (s *stages) event(i int) (event []byte, dotted, skip bool, err *DecodeError) {
	event, dotted = s.document, s.dotted
	if !s.whole {
		element := &s.elements[i]
		if element.Kind != bson.TypeEmbeddedDocument {
			return nil, false, false, s.noObject(element)
		}
		event = s.merge(element.Value)
		if event, dotted, err = s.prepare(event, dotted, &s.inner, &s.parsedEvent); err != nil {
			return nil, false, false, err
		}
	}
	if s.meets(s.skip, event) {
		return nil, false, true, nil
	}
	if s.tall.name != nil {
		var hasDot bool
		if event, hasDot, err = s.nameValue(event); err != nil {
			return nil, false, false, err
		}
		dotted = dotted || hasDot
	}
	if len(s.rename) > 0 {
		if event, err = s.edited(&s.renamed, event, s.rename); err != nil {
			return nil, false, false, err
		}
	}
	return event, dotted, false, nil
}

func (s *stages) noObject(element *listElement) *DecodeError {
	path := s.listed[element.list].path + "." + strconv.Itoa(element.index)
	if element.Kind == bson.TypeArray {
		return newError(NotObject, path, "this element of EVENT_LIST=%s is itself a list, but a list inside a list cannot be split: send one list of objects", s.listed[element.list].text)
	}
	return newError(NotObject, path, "%s is not an object: each element of EVENT_LIST=%s must be an object with the names of its values", quoteValue(element.Kind, element.Value), s.listed[element.list].text)
}

// merge returns an element of a list with the members that it inherits. These are the members of the envelope that it lacks, and
// they stand before its own.
func (s *stages) merge(element []byte) []byte {
	s.members = s.members[:0]
	for list := rawbson.Content(element); len(list) > 0; {
		var e rawbson.Element
		list = e.Cut(list)
		s.members = append(s.members, e.Name)
	}
	if len(s.members) > fewNames {
		slices.SortFunc(s.members, slices.Compare)
	}
	s.merged = s.mergeInto(append(s.merged[:0], 0, 0, 0, 0), rawbson.Content(s.envelope), s.root, element)
	s.merged = rawbson.EndDocument(s.merged, 0)
	return s.merged
}

// mergeInto appends the members of the envelope. It appends the element's members to the object to which names lead.
func (s *stages) mergeInto(dst, list []byte, names []string, element []byte) []byte {
	merged := false
	for len(list) > 0 {
		var e rawbson.Element
		whole := list
		list = e.Cut(list)
		switch {
		case len(names) == 0 && s.isMember(e.Name):
		case len(names) > 0 && !merged && string(e.Name) == names[0] && e.Kind == bson.TypeEmbeddedDocument:
			dst, merged = s.mergeBelow(dst, rawbson.Content(e.Value), names, element), true
		default:
			dst = append(dst, whole[:len(whole)-len(list)]...)
		}
	}
	switch {
	case len(names) == 0:
		dst = append(dst, rawbson.Content(element)...)
	case !merged: // the object held only the list
		dst = s.mergeBelow(dst, nil, names, element)
	}
	return dst
}

func (s *stages) mergeBelow(dst, list []byte, names []string, element []byte) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, names[0])
	start := len(dst)
	dst = s.mergeInto(append(dst, 0, 0, 0, 0), list, names[1:], element)
	return rawbson.EndDocument(dst, start)
}

// isMember reports whether the element that is being merged has a field of a name.
func (s *stages) isMember(name []byte) bool {
	if len(s.members) > fewNames {
		_, found := slices.BinarySearchFunc(s.members, name, slices.Compare)
		return found
	}
	return slices.ContainsFunc(s.members, func(other []byte) bool { return string(other) == string(name) })
}

// alone returns the open document with only one of its elements, as the element's dead letter holds it.
func (s *stages) alone(i int) (document []byte, err *DecodeError) {
	if s.whole {
		return s.document, nil
	}
	s.only = &s.elements[i]
	defer func() { s.only = nil }()
	document = make([]byte, 0, len(s.envelope))
	return s.edited(&document, s.document, s.lists)
}

// bufferBytes estimates the size of the buffers that a large record enlarges.
func (s *stages) bufferBytes() int {
	const elementBytes, nameBytes = 72, 24
	return cap(s.parsed) + cap(s.envelope) + cap(s.merged) + cap(s.parsedEvent) + cap(s.named) + cap(s.renamed) + cap(s.reader.out) +
		cap(s.nester.out) + cap(s.inner.out) + elementBytes*cap(s.elements) + nameBytes*cap(s.members)
}

// drop drops the buffers that a large record enlarges.
func (s *stages) drop() {
	s.parsed, s.merged, s.parsedEvent, s.named, s.renamed, s.elements, s.members = nil, nil, nil, nil, nil, nil, nil
	s.reader.out, s.reader.wrapped, s.nester, s.inner = nil, nil, nester{}, nester{}
	s.document, s.envelope = nil, nil
	clear(s.found)
}
