package measurement

import (
	"bytes"
	"encoding/binary"
)

// step is the way from one value to the next, as it was last read. It holds the text between them and the effect of the text.
type step struct {
	literal []byte // Empty means that the step is not known.
	moves   []move
	place   *place // the place of the next value. Nil means that the event ends.
	opening bool   // the step begins behind the brace of an object
	missed  int    // how often in a row the text has differed
}

// move begins an object. If begin is nil, it ends the innermost object.
type move struct{ begin *place }

// matches reports whether a text begins with the step's literal.
func (s *step) matches(text []byte) bool {
	literal := s.literal
	n := len(literal)
	if n > len(text) {
		return false
	}
	if n < 8 {
		return n > 0 && string(text[:n]) == string(literal)
	}
	// The last eight bytes may overlap the bytes compared before, which costs little.
	for j := 0; j < n-8; j += 8 {
		if binary.LittleEndian.Uint64(text[j:]) != binary.LittleEndian.Uint64(literal[j:]) {
			return false
		}
	}
	return binary.LittleEndian.Uint64(text[n-8:]) == binary.LittleEndian.Uint64(literal[n-8:])
}

// take makes a step, and returns the place of the next value. Nil means that the event ends.
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

// turn makes a step whose text differs from the remembered one. Names may come in any order, so turn remembers the new text only
// after it has differed several times.
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

// sibling continues with another known name of the innermost object, or ends the event. It returns unknown if the text does
// anything else.
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

// learn reads from the end of a value or the start of an object to the next value, and remembers the step.
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

// learnName reads a name and its colon. It returns the index of the value.
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

// unquotedName returns the meaning of a name with escapes. Nil means that the name is malformed, or needs escapes. Some producers
// escape every character beyond ASCII.
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

// find returns the place of a name in the innermost open object. For a dotted name it opens the objects that the dots make.
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

// leave ends the innermost object of the text, and the objects that dotted names have opened in it.
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

// maxMoves bounds the moves of a step that is remembered. Each move takes at least one byte of its text, or ends an object that
// dotted names have opened.
const maxMoves = maxLiteral + maxDepth

// move makes a move and remembers it.
func (q *quick) move(s *step, begin *place) bool {
	// A text may have as many moves as it has braces.
	if len(s.moves) < maxMoves {
		s.moves = append(s.moves, move{begin})
	}
	return q.make(move{begin})
}
