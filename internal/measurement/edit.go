package measurement

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// editKind is what a stage does to the value at a path.
type editKind uint8

const (
	editWithin editKind = iota // the path only leads on to others
	editParse                  // a text that holds JSON becomes what it holds
	editTake                   // the value is taken out
	editName                   // the field gets another name
	editNull                   // the value is left out if it is null
)

// edit is a node of the tree that the paths of the stages make.
type edit struct {
	name     []byte
	children []edit
	kind     editKind
	index    int    // for editTake: index of the value in found
	to       []byte // for editName: the other name
}

// growEdit returns the edit of a path, and adds it if it is missing. Pointers to edits are valid until the next growEdit.
func growEdit(at *[]edit, path string) (leaf *edit) {
	for name := range strings.SplitSeq(path, ".") {
		if leaf = editOf(*at, []byte(name)); leaf == nil {
			*at = append(*at, edit{name: []byte(name)})
			leaf = &(*at)[len(*at)-1]
		}
		at = &leaf.children
	}
	return leaf
}

// editOf returns the edit of a name. Nil means that no path leads there.
func editOf(edits []edit, name []byte) *edit {
	for i := range edits {
		if string(edits[i].name) == string(name) {
			return &edits[i]
		}
	}
	return nil
}

// edited returns a document after edits, in a buffer that it enlarges if necessary.
func (s *stages) edited(buffer *[]byte, document []byte, edits []edit) ([]byte, *DecodeError) {
	out, err := s.apply(append((*buffer)[:0], 0, 0, 0, 0), rawbson.Content(document), edits)
	if err != nil {
		return nil, err
	}
	*buffer = rawbson.EndDocument(out, 0)
	return *buffer, nil
}

// apply appends the edited elements of a list to dst. Elements that are taken out go to found.
func (s *stages) apply(dst, list []byte, edits []edit) (out []byte, err *DecodeError) {
	all, searches := list, 2*len(edits) // more nulls with names of edits are duplicates, which are an error later
	for len(list) > 0 {
		var e rawbson.Element
		whole := list
		list = e.Cut(list)
		next := editOf(edits, e.Name)
		if e.Kind == bson.TypeNull && searches > 0 && isOfRename(edits, e.Name) {
			if searches--; hasRival(all, edits, &e, len(list)) {
				continue
			}
		}
		if next == nil {
			dst = append(dst, whole[:len(whole)-len(list)]...)
			continue
		}
		if dst, err = s.edit(dst, e, next); err != nil {
			return nil, err.within(string(e.Name))
		}
	}
	return dst, nil
}

// hasRival reports whether a null would share its name with another element of a list, after an edit has given one of them this
// name. Null is as if it were not there. Of several nulls the first one stays.
//
// left is the number of bytes behind the null.
func hasRival(list []byte, edits []edit, null *rawbson.Element, left int) bool {
	name, renamed := newName(edits, null.Name)
	for before := true; len(list) > 0; {
		var e rawbson.Element
		list = e.Cut(list)
		if len(list) == left {
			before = false
			continue
		}
		other, isRenamed := newName(edits, e.Name)
		if (renamed || isRenamed) && string(other) == string(name) && (before || e.Kind != bson.TypeNull) {
			return true
		}
	}
	return false
}

// isOfRename reports whether a name is the former or the new name of a field that an edit renames.
func isOfRename(edits []edit, name []byte) bool {
	return slices.ContainsFunc(edits, func(of edit) bool {
		return of.kind == editName && (string(of.name) == string(name) || string(of.to) == string(name))
	})
}

// newName returns the name of an element after the edits.
func newName(edits []edit, name []byte) (_ []byte, renamed bool) {
	if at := editOf(edits, name); at != nil && at.kind == editName {
		return at.to, true
	}
	return name, false
}

// edit appends an element to which a path leads.
func (s *stages) edit(dst []byte, e rawbson.Element, at *edit) ([]byte, *DecodeError) {
	switch at.kind {
	case editParse:
		return s.appendParsed(dst, e, at)
	case editName:
		return rawbson.AppendElement(dst, e.Kind, at.to, e.Value), nil
	case editNull:
		if e.Kind != bson.TypeNull {
			return rawbson.AppendElement(dst, e.Kind, e.Name, e.Value), nil
		}
		s.taken++
		return dst, nil
	case editTake:
		s.taken++
		switch {
		case s.only == nil && s.found[at.index].Kind != 0:
			return nil, duplicateField("")
		case s.only == nil:
			s.found[at.index] = e
		case s.only.list == at.index:
			dst = appendListOf(dst, e.Name, &s.only.Element)
		}
		return dst, nil
	}
	return s.appendWithin(dst, e, at)
}

// appendWithin appends an element into which paths may lead.
func (s *stages) appendWithin(dst []byte, e rawbson.Element, at *edit) ([]byte, *DecodeError) {
	if e.Kind != bson.TypeEmbeddedDocument || len(at.children) == 0 {
		if e.Kind == bson.TypeArray && at.leadsToList() {
			return nil, newError(NotObject, "", "the value is a list, and EVENT_LIST names a list inside its elements: a list inside a list cannot be split, so send one list of objects")
		}
		return rawbson.AppendElement(dst, e.Kind, e.Name, e.Value), nil
	}
	start, taken := len(dst), s.taken
	dst = rawbson.AppendHeader(dst, e.Kind, e.Name)
	document := len(dst)
	dst, err := s.apply(append(dst, 0, 0, 0, 0), rawbson.Content(e.Value), at.children)
	if err != nil {
		return nil, err
	}
	dst = rawbson.EndDocument(dst, document)
	if s.taken > taken && len(dst)-document == rawbson.Empty {
		dst = dst[:start] // it held nothing but values that were taken out
	}
	return dst, nil
}

// leadsToList reports whether an edit below this one takes a list out.
func (at *edit) leadsToList() bool {
	for i := range at.children {
		if at.children[i].kind == editTake || at.children[i].leadsToList() {
			return true
		}
	}
	return false
}

// appendListOf appends an array of one element.
func appendListOf(dst, name []byte, e *rawbson.Element) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeArray, name)
	start := len(dst)
	dst = rawbson.AppendIndexHeader(append(dst, 0, 0, 0, 0), e.Kind, 0)
	return rawbson.EndDocument(append(dst, e.Value...), start)
}

// lookUp returns the element to which names lead in a document. Kind 0 means that the document lacks it.
func lookUp(document []byte, names []string) (e rawbson.Element) {
	for i, name := range names {
		e = elementOf(document, name)
		if i == len(names)-1 {
			break
		}
		if e.Kind != bson.TypeEmbeddedDocument {
			return rawbson.Element{}
		}
		document = e.Value
	}
	return e
}

// appendParsed appends the content of a text to which a path of EVENT_PARSE leads. The content is JSON, or JSON in base64. The
// two cannot be confused. Other values stay as they are, so that a dead letter of an event that was already parsed can be read
// again.
func (s *stages) appendParsed(dst []byte, e rawbson.Element, at *edit) ([]byte, *DecodeError) {
	var text []byte
	switch e.Kind {
	case bson.TypeString:
		text = rawbson.Text(e.Value)
	case bson.TypeBinary:
		text = e.Value[5:]
	default:
		return s.appendWithin(dst, e, at)
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if !isJSONStart(text) {
		decoded, ok := fromBase64(text)
		if !ok || !isJSONStart(decoded) {
			return nil, newError(NotJSON, "", "%s holds no JSON object or array, neither plain nor in base64, but EVENT_PARSE requires one: send one, or correct the setting", quoteText(text))
		}
		text = decoded
	}
	j := s.reader
	j.begin(text)
	j.out = j.out[:0]
	kind, err := j.value(1)
	if err == nil {
		err = j.endOf("the text holds more than one JSON value, but EVENT_PARSE reads one: %s follows at byte %d. Send an array of the values, or one text for each")
	}
	if err != nil {
		return nil, err
	}
	if len(at.children) == 0 {
		return rawbson.AppendElement(dst, kind, e.Name, j.out), nil
	}
	return s.appendWithin(dst, rawbson.Element{Kind: kind, Name: e.Name, Value: bytes.Clone(j.out)}, at) // the reader is needed for other texts
}

// fromBase64 decodes base64 in its usual or its URL alphabet, with or without padding.
func fromBase64(text []byte) ([]byte, bool) {
	text = bytes.TrimRight(bytes.TrimSpace(text), "=")
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.AppendDecode(nil, text)
	return bytes.TrimPrefix(decoded, []byte(byteOrderMark)), err == nil && len(text) > 0
}
