package measurement

import (
	"bytes"
	"encoding/binary"
)

// step is the way from one value to the next as it was last gone: the text between them and what it does.
type step struct {
	literal []byte // empty: not known
	moves   []move
	place   *place // of the next value. Nil means that the event ends.
	opening bool   // it begins behind the brace of an object
	missed  int    // how often in a row another way was gone
}

// move is a beginning of an object, or the end of the innermost one when begin is nil.
type move struct{ begin *place }

// matches reports whether a text begins with the literal.
func (s *step) matches(text []byte) bool {
	literal := s.literal
	n := len(literal)
	if n > len(text) {
		return false
	}
	if n < 8 {
		return n > 0 && string(text[:n]) == string(literal)
	}
	// The last eight bytes may have been compared in part before: literals are short.
	for j := 0; j < n-8; j += 8 {
		if binary.LittleEndian.Uint64(text[j:]) != binary.LittleEndian.Uint64(literal[j:]) {
			return false
		}
	}
	return binary.LittleEndian.Uint64(text[n-8:]) == binary.LittleEndian.Uint64(literal[n-8:])
}

// take goes a step, and returns the place of the next value. Nil means that the event ends.
func (q *quick) take(s *step, i int) (*place, int) {
	if !s.matches(q.text[i:]) {
		return q.turn(s, i)
	}
	s.missed = 0
	for _, m := range s.moves {
		if !q.make(m) {
			return nil, unknown
		}
	}
	return s.place, i + len(s.literal)
}

// turn goes a step that differs from the one before. Names may come in any order: only when it has differed for some times
// it is remembered.
func (q *quick) turn(s *step, i int) (*place, int) {
	if s.missed++; s.missed < longMissed {
		if p, next := q.sibling(s, i); next >= 0 {
			return p, next
		}
	}
	s.missed = 0
	i = q.learn(s, i)
	return s.place, i
}

// sibling goes on with another name that the innermost object is known to have, or ends the event, where nothing but that is
// to be done.
func (q *quick) sibling(s *step, i int) (*place, int) {
	text, object := q.text, q.open[len(q.open)-1].place
	if i >= len(text) || object.undotted != nil {
		return nil, unknown
	}
	if text[i] == '}' && len(q.open) == 1 {
		if !q.end() {
			return nil, unknown
		}
		return nil, i + 1
	}
	if !s.opening {
		if text[i] != ',' {
			return nil, unknown
		}
		i++
	}
	if len(text)-i <= 8 || len(object.children) > fewChildren {
		return nil, unknown
	}
	w := binary.LittleEndian.Uint64(text[i:])
	for _, p := range object.children {
		if (w^p.word)&p.mask != 0 {
			continue
		}
		// The name between its quotes, and the colon.
		name := p.name()
		colon := i + len(name) + 2
		if colon+1 < len(text) && text[colon] == ':' && text[colon-1] == '"' && string(text[i+1:colon-1]) == string(name) {
			return p, colon + 1
		}
	}
	return nil, unknown
}

func (q *quick) make(m move) bool {
	if m.begin != nil {
		return q.begin(m.begin)
	}
	return q.end()
}

// learn reads from the end of a value, or the beginning of an object, to the next value, and remembers the way.
func (q *quick) learn(s *step, i int) int {
	text, start, opening := q.text, i, s.opening
	s.literal, s.moves, s.place = s.literal[:0], s.moves[:0], nil
	for {
		if i = skipSpace(text, i); i == len(text) {
			return unknown
		}
		if text[i] == '}' {
			i++
			if !q.leave(s) {
				return unknown
			}
			if opening = false; len(q.open) == 0 {
				break
			}
			continue
		}
		if !opening {
			if text[i] != ',' {
				return unknown
			}
			i = skipSpace(text, i+1)
		}
		var p *place
		if p, i = q.learnName(s, i); i < 0 {
			return unknown
		}
		if text[i] != '{' || !p.holds() || q.wraps(i) {
			s.place = p
			break
		}
		if !q.move(s, p) {
			return unknown
		}
		i, opening = i+1, true
	}
	if i-start > maxLiteral {
		s.moves = s.moves[:0]
		return i
	}
	s.literal = append(s.literal, text[start:i]...)
	return i
}

// learnName reads a name and its colon, up to the value.
func (q *quick) learnName(s *step, i int) (*place, int) {
	text := q.text
	if i == len(text) || text[i] != '"' {
		return nil, unknown
	}
	end, how := scanString(text, i+1)
	if end < 0 {
		return nil, unknown
	}
	name := text[i+1 : end]
	if how == escaped {
		if name = q.unquotedName(text[i : end+1]); name == nil {
			return nil, unknown
		}
	}
	p := q.find(s, name)
	if i = skipSpace(text, end+1); p == nil || i == len(text) || text[i] != ':' {
		return nil, unknown
	}
	if i = skipSpace(text, i+1); i == len(text) {
		return nil, unknown
	}
	return p, i
}

// unquotedName is what a name with escapes means. Nil means that it is none, or one that cannot be written without. Some write every
// character so that is not ASCII.
func (q *quick) unquotedName(quoted []byte) []byte {
	if len(quoted) > maxLiteral {
		return nil
	}
	name, ok := appendUnquoted(q.unquoted[:0], quoted)
	q.unquoted = name
	if !ok || bytes.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return nil
	}
	return name
}

// find is the place of a name in the innermost object that is open, and opens what its dots say.
func (q *quick) find(s *step, name []byte) *place {
	base := len(q.open) - 1
	for q.open[base].place.undotted != nil {
		base--
	}
	isDotted := bytes.IndexByte(name, '.') >= 0
	if isDotted && (!q.nest || !q.open[base].place.fields) {
		return nil
	}
	rest := name
	for keep := base + 1; ; keep++ {
		first, behind := cutPath(rest)
		if keep < len(q.open) && behind != nil && string(q.open[keep].place.name()) == string(first) {
			rest = behind
			continue
		}
		for len(q.open) > keep {
			if !q.move(s, nil) {
				return nil
			}
		}
		if behind == nil {
			return q.placeOf(q.open[keep-1].place, first)
		}
		p := q.dottedPlaceOf(q.open[keep-1].place, first)
		if p == nil || !q.move(s, p) {
			return nil
		}
		rest = behind
	}
}

// leave ends the innermost object of the text, with what dotted names have opened in it.
func (q *quick) leave(s *step) bool {
	for {
		dotted := q.open[len(q.open)-1].place.undotted != nil
		if !q.move(s, nil) {
			return false
		}
		if !dotted {
			return true
		}
	}
}

// maxMoves are more than a step whose text is remembered has: each is a byte of it at least, or ends what dotted names opened.
const maxMoves = maxLiteral + maxDepth

// move makes a move and remembers it.
func (q *quick) move(s *step, begin *place) bool {
	if len(s.moves) < maxMoves { // there may be as many as the text has braces
		s.moves = append(s.moves, move{begin})
	}
	return q.make(move{begin})
}
