package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/listgroups"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	kafkaproduce "github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// maxDecodedBytes bounds the memory of one answer after kafka-go has decoded it. An element of a few bytes on the wire may take
// fifty bytes in memory.
const maxDecodedBytes = 64 << 20

// decoded holds the answers that kafka-go decodes. It allocates what their arrays and strings announce before it checks that so
// many bytes came.
var decoded = map[protocol.ApiKey]any{
	protocol.ApiVersions:     apiversions.Response{},
	protocol.CreateTopics:    createtopics.Response{},
	protocol.DescribeConfigs: describeconfigs.Response{},
	protocol.DescribeGroups:  describegroups.Response{},
	protocol.FindCoordinator: findcoordinator.Response{},
	protocol.JoinGroup:       joingroup.Response{},
	protocol.ListGroups:      listgroups.Response{},
	protocol.ListOffsets:     listoffsets.Response{},
	protocol.Metadata:        metadata.Response{},
	protocol.OffsetCommit:    offsetcommit.Response{},
	protocol.Produce:         kafkaproduce.Response{},
	protocol.SyncGroup:       syncgroup.Response{},
}

// shape walks over one value of an answer as kafka-go decodes it, without building the value.
type shape func(*meter)

// meter reads an answer and adds up the memory of its decoded form.
type meter struct {
	Reader
	room int
}

// spend adds the memory of n values of a size.
func (m *meter) spend(n, size int) {
	if m.room -= n * size; m.room < 0 {
		m.Fail(fmt.Errorf("%w: it needs more than %d MiB of memory", ErrMalformed, maxDecodedBytes>>20))
	}
}

// check refuses an answer that announces more than it holds, or whose decoded form takes too much memory.
func (s shape) check(answer []byte) error {
	m := meter{Reader: Reader{rest: answer}, room: maxDecodedBytes}
	s(&m)
	return m.err
}

type versioned struct {
	api     protocol.ApiKey
	version int16
}

var shapes sync.Map // versioned → shape

// shapeOf returns the shape of an answer after its correlation id. It is nil when kafka-go does not know that version.
func shapeOf(api protocol.ApiKey, version int16) shape {
	if s, ok := shapes.Load(versioned{api, version}); ok {
		return s.(shape)
	}
	message, ok := decoded[api]
	if !ok {
		return nil
	}
	t := reflect.TypeOf(message)
	flexible, known := versionOf(t, version)
	if !known {
		return nil
	}
	body := structShape(t, version, flexible)
	whole := shape(func(m *meter) {
		if flexible {
			m.Tags() // of the header
		}
		body(m)
	})
	shapes.Store(versioned{api, version}, whole)
	return whole
}

// versionOf reports whether the message has this version, and whether it is flexible.
func versionOf(t reflect.Type, version int16) (flexible, known bool) {
	for i := range t.NumField() {
		for _, tag := range tagsOf(t.Field(i)) {
			known = known || tag.min <= version && version <= tag.max
			flexible = flexible || tag.tagged && tag.min <= version
		}
	}
	return flexible, known
}

// valueShape returns the shape of a value of a Go type. In flexible versions kafka-go reads all lengths as compact.
func valueShape(t reflect.Type, version int16, flexible bool) shape {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float64:
		return func(m *meter) { m.Take(int(t.Size())) }
	case reflect.String:
		return func(m *meter) { m.text(m.length(flexible, (*Reader).ShortLen)) }
	case reflect.Struct:
		return structShape(t, version, flexible)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return func(m *meter) { m.text(m.length(flexible, (*Reader).LongLen)) }
		}
		return arrayShape(t.Elem(), version, flexible)
	}
	panic("wire: an answer of kafka-go has a field of type " + t.String())
}

// length reads a length, compact or with plain. It is negative for null.
func (m *meter) length(flexible bool, plain func(*Reader) int) int {
	if flexible {
		return m.CompactLen()
	}
	return plain(&m.Reader)
}

// text skips n bytes, of which kafka-go makes one or two copies.
func (m *meter) text(n int) {
	if n > 0 {
		m.Take(n)
		m.spend(n, 2)
	}
}

func arrayShape(t reflect.Type, version int16, flexible bool) shape {
	element := valueShape(t, version, flexible)
	return func(m *meter) {
		n := m.length(flexible, (*Reader).LongLen)
		if n > len(m.rest) { // each element takes at least one byte
			m.Fail(fmt.Errorf("%w: a list of %d elements, but only %d bytes are left", ErrMalformed, n, len(m.rest)))
		}
		for m.spend(max(n, 0), int(t.Size())); n > 0 && m.err == nil; n-- {
			element(m)
		}
	}
}

func structShape(t reflect.Type, version int16, flexible bool) shape {
	var fields []shape
	for i := range t.NumField() {
		for _, tag := range tagsOf(t.Field(i)) {
			if tag.min <= version && version <= tag.max && !tag.tagged {
				fields = append(fields, valueShape(t.Field(i).Type, version, flexible))
				break
			}
		}
	}
	return func(m *meter) {
		for _, field := range fields {
			field(m)
		}
		if flexible {
			m.Tags()
		}
	}
}

// fieldTag is one alternative in the struct tag of a field of kafka-go's messages.
type fieldTag struct {
	min, max int16
	tagged   bool // marks flexible versions, and is no field
}

func tagsOf(f reflect.StructField) []fieldTag {
	var tags []fieldTag
	for alternative := range strings.SplitSeq(f.Tag.Get("kafka"), "|") {
		tag := fieldTag{min: -1, max: -1}
		for option := range strings.SplitSeq(alternative, ",") {
			switch name, value, _ := strings.Cut(option, "="); {
			case name == "min":
				tag.min = versionNumber(value)
			case name == "max":
				tag.max = versionNumber(value)
			case name == "tag" && value != "":
				panic("wire: an answer of kafka-go has a tagged field, " + f.Name)
			case name == "tag":
				tag.tagged = true
			}
		}
		tags = append(tags, tag)
	}
	return tags
}

func versionNumber(text string) int16 {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "v"), 10, 16)
	if err != nil {
		panic("wire: a message of kafka-go has a version " + text)
	}
	return int16(n)
}
