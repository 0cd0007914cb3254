package measurement

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waterwheel/internal/words"
)

// jsonTokens cuts JSON text into tokens. It is the only user of jsontext, and checks only the syntax. The readers of the tokens
// compare names and check text, so that a bad element of an array does not spoil the others.
type jsonTokens struct {
	decoder jsontext.Decoder
	source  bytes.Buffer
	options []jsontext.Options
	text    []byte
	event   int  // the depth of events: 0, or 1 in an array
	broken  bool // the text is not JSON, and cannot be read further
}

func newJSONTokens() jsonTokens {
	return jsonTokens{options: []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}}
}

// begin starts reading a text.
func (j *jsonTokens) begin(text []byte) {
	j.text, j.event, j.broken = text, 0, false
	j.source = *bytes.NewBuffer(text)
	j.decoder.Reset(&j.source, j.options...)
}

// next returns the first byte of the next token, and '0' for every number. It returns 0 at the end of the text, and if the text
// is not JSON.
func (j *jsonTokens) next() byte { return byte(j.decoder.PeekKind()) }

// offset returns the end of the token that was read last.
func (j *jsonTokens) offset() int { return int(j.decoder.InputOffset()) }

// enter reads the bracket that begins an array of events.
func (j *jsonTokens) enter() *DecodeError {
	j.event = 1
	return j.token()
}

// leave reads the bracket that ends an array of events.
func (j *jsonTokens) leave() *DecodeError {
	j.event = 0
	return j.token()
}

// more reports whether another object or array follows the top-level value that was read last.
func (j *jsonTokens) more() bool { return !j.broken && isJSONStart(j.decoder.UnreadBuffer()) }

func (j *jsonTokens) token() *DecodeError {
	if _, err := j.decoder.ReadToken(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// end returns an error if something stands behind the values of a record.
func (j *jsonTokens) end() *DecodeError {
	return j.endOf("a record may hold only objects and arrays, but %s follows at byte %d: leave it out")
}

// endOf returns an error if something stands behind the values. format is the error's text, with what follows and its place.
func (j *jsonTokens) endOf(format string) *DecodeError {
	rest := bytes.TrimLeft(j.decoder.UnreadBuffer(), " \t\r\n")
	if len(rest) == 0 {
		return nil
	}
	j.broken = true
	at := len(j.text) - len(rest)
	if zeros := len(rest) - len(bytes.TrimLeft(rest, "\x00")); zeros == len(rest) {
		return newError(NotJSON, "", "%s the JSON, at byte %d: have its producer leave out the zero byte that ends a string in C",
			words.Count(zeros, "zero byte")+words.Form(zeros, " follows", " follow"), at)
	}
	if bytes.HasPrefix(rest, []byte(byteOrderMark)) {
		return newError(NotJSON, "", "a byte order mark follows the JSON, at byte %d, before %s: leave it out, because only the first text may have one", at, quoteText(rest[len(byteOrderMark):]))
	}
	return newError(NotJSON, "", format, quoteText(rest), at)
}

// skip reads the rest of an event that was begun.
func (j *jsonTokens) skip() *DecodeError {
	for j.decoder.StackDepth() > j.event {
		if err := j.token(); err != nil {
			return err
		}
	}
	return nil
}

// skipValue skips the next value.
func (j *jsonTokens) skipValue() *DecodeError {
	if err := j.decoder.SkipValue(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// raw returns the next value as it stands in the text.
func (j *jsonTokens) raw() ([]byte, *DecodeError) {
	value, err := j.decoder.ReadValue()
	if err != nil {
		return nil, j.syntaxError(err)
	}
	return value, nil
}

// appendUnquoted appends the text of a JSON string. False means that it is not UTF-8.
func appendUnquoted(dst, quoted []byte) ([]byte, bool) {
	dst, err := jsontext.AppendUnquote(dst, quoted)
	return dst, err == nil
}

// path returns the path from the event to the value that was read last.
func (j *jsonTokens) path() string { return dottedPath(j.decoder.StackPointer(), j.event) }

// dottedPath turns a JSON pointer into a dotted path, and leaves out its first names.
func dottedPath(pointer jsontext.Pointer, without int) string {
	names := slices.Collect(pointer.Tokens())
	return strings.Join(names[min(without, len(names)):], ".")
}

// syntaxError says why the text is not JSON.
func (j *jsonTokens) syntaxError(err error) *DecodeError {
	j.broken = true
	if j.decoder.StackDepth() > maxDepth {
		return tooDeep("")
	}
	at, path, cause := len(j.text), "", err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at, path, cause = min(int(syntax.ByteOffset), at), dottedPath(syntax.JSONPointer, 0), syntax.Err
	}
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		return newError(NotJSON, "", "the text ends at byte %d in the middle of a value: is it truncated?", len(j.text))
	}
	if what, wayOut := notJSONHere(j.text, at); what != "" {
		for at > 0 && isWordByte(j.text[at]) && isWordByte(j.text[at-1]) {
			at-- // the parser stops within the word
		}
		return newError(NotJSON, path, "%s, at byte %d, before %s: %s", what, at, quoteText(j.text[at:]), wayOut)
	}
	return newError(NotJSON, path, "%v at byte %d, before %s", cause, at, quoteText(j.text[at:]))
}
