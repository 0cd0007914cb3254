package measurement

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// TestFastPathAgrees gives random events of random shapes to a decoder and to one without the quick reader. Each shape comes
// several times with other values, and is sometimes damaged.
func TestFastPathAgrees(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := eventGenerator{rand.New(rand.NewPCG(seed, 0))}
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	stored, quick := 0, 0
	for range rounds {
		p, ok := newFastPair(fastOptions(g.choice()))
		if !ok {
			continue
		}
		shape := g.shape(p.options)
		for i := range 12 {
			value := g.record(p.options, shape)
			r := record.Record{Offset: int64(i), Timestamp: recordTime, Key: []byte(g.scalar()), Value: []byte(value)}
			if g.IntN(4) > 0 {
				r.Headers = headersOf("a", g.scalar(), "h", strings.Trim(g.time(), `"`))
			}
			p.check(t, r)
			if results := p.judge.results; len(results) > 0 && p.judge.badParts == 0 {
				stored++
				if p.fast.quick.missed == 0 {
					quick++
				}
			}
		}
	}
	t.Logf("%d records stored, %d of them in one pass", stored, quick)
	if stored < rounds || quick < stored*6/10 {
		t.Error("the quick reader is hardly tried")
	}
}

// TestPlacesAreBounded checks that events with ever new names are decoded as before, and that few of them are remembered.
func TestPlacesAreBounded(t *testing.T) {
	p, ok := newFastPair(plainOptions)
	if !ok {
		t.Fatal("no decoders")
	}
	long := strings.Repeat("n", 2*maxLiteral)
	for i := range 3 * maxPlaces {
		name := strconv.Itoa(i)
		p.check(t, recordOf(`{"time":1700000000,"meta":"a","`+name+`":1,"x`+name+`":{"y.`+name+`":2}}`))
	}
	if q := &p.fast.quick; q.places > maxPlaces || !q.full {
		t.Errorf("%d places, full %v", q.places, q.full)
	}
	p.fast.quick.records = relearned
	p.fast.quick.missed = 0
	for range 2 {
		p.check(t, recordOf(`{"time":1700000000,"meta":"a","`+long+`":1}`))
		p.check(t, recordOf(`{"time":1700000000,"meta":"a"`+strings.Repeat(" ", 2*maxLiteral)+`,"x":1}`))
	}
	if q := &p.fast.quick; q.places > 8 || q.missed != 0 {
		t.Errorf("%d places after they were forgotten, %d missed", q.places, q.missed)
	}
}

func TestNamesInAnyOrderDecodeWithoutAllocations(t *testing.T) {
	d, events, i := newDecoder(t, plainOptions), variedEvents(true), 0
	decode := func() {
		if _, err := d.Decode(recordOf(events[i%len(events)])); err != nil {
			t.Fatal(err)
		}
		i++
	}
	const ownAllocations = 1 // the record's bytes
	for range events {
		decode()
	}
	if n := testing.AllocsPerRun(len(events), decode); n > ownAllocations {
		t.Errorf("%v allocations", n-ownAllocations)
	}
}

// eventGenerator makes the texts of events.
type eventGenerator struct{ *rand.Rand }

// choice returns a number for fastOptions with few bits set, because no event satisfies many settings at once.
func (g eventGenerator) choice() uint32 {
	var choice uint32
	for range g.IntN(4) {
		choice |= 1 << g.IntN(21)
	}
	return choice
}

// field is a name of an event with its content, which is fields of an object, items of an array, or a value.
type field struct {
	name    string
	fields  []field
	isArray bool
	value   func() string
}

// shape returns the fields that the options expect, among random fields.
func (g eventGenerator) shape(o Options) []field {
	shape := g.fields(0)
	place := func(path string, value func() string) {
		if whole, ok := strings.CutPrefix(path, "/"); ok && o.Root != "" {
			path = whole
		} else if o.Root != "" {
			path = o.Root + "." + path
		}
		shape = insert(shape, strings.Split(path, "."), value)
	}
	if o.Fields != "" {
		place(o.Fields+"."+g.name(), g.scalar)
	}
	if o.Root != "" {
		place(g.name(), g.scalar)
	}
	if o.MetaField != "" && !isOfRecord(o.MetaField) {
		place(o.MetaField, g.meta)
	}
	for _, part := range o.MetaFields {
		if _, path := splitPart(part); !isOfRecord(path) {
			place(path, g.meta)
		}
	}
	for _, path := range o.Drop {
		if g.IntN(2) == 0 {
			place(path, g.scalar)
		}
	}
	for i, path := range strings.Split(o.TimeField, "|") {
		if path != "" && !isOfRecord(path) && (i == 0 || g.IntN(2) == 0) {
			place(path, g.time)
		}
	}
	g.Shuffle(len(shape), func(i, j int) { shape[i], shape[j] = shape[j], shape[i] })
	return shape
}

// insert sets the value at a path, and replaces what was there.
func insert(shape []field, path []string, value func() string) []field {
	for i := range shape {
		if f := &shape[i]; f.name == path[0] {
			if len(path) == 1 {
				*f = field{name: f.name, value: value}
			} else {
				f.value, f.isArray = nil, false
				f.fields = insert(f.fields, path[1:], value)
			}
			return shape
		}
	}
	f := field{name: path[0], value: value}
	if len(path) > 1 {
		f.value, f.fields = nil, insert(nil, path[1:], value)
	}
	return append(shape, f)
}

func (g eventGenerator) fields(depth int) (fields []field) {
	seen := map[string]bool{}
	for range g.IntN(6) {
		name := g.name()
		if seen[name] && g.IntN(30) > 0 {
			continue
		}
		seen[name] = true
		f := field{name: name, value: g.scalar}
		if nested := g.IntN(5); nested < 2 && depth < 3 {
			f = field{name: name, fields: g.fields(depth + 1), isArray: nested == 1}
		}
		fields = append(fields, f)
	}
	return fields
}

func (g eventGenerator) name() string {
	names := []string{"a", "b", "c", "temp", "humidity", "x", "y", "meter_reading_total", "é", `temp\u00e9rature`, "p.q", "p.r", "p.q.s", "time", "meta"}
	if g.IntN(40) == 0 {
		names = []string{"", "$x", `\u0061`, "a.", ".", "a\\\"b", "\xff", "a\tb"}
	}
	return names[g.IntN(len(names))]
}

// record returns an event of the shape, or an array of several, sometimes damaged.
func (g eventGenerator) record(o Options, shape []field) string {
	var b strings.Builder
	if o.Framing == Confluent || o.Framing == AutoFrame && g.IntN(2) == 0 {
		b.WriteString("\x00\x00\x00\x00\x07")
	}
	spaced := g.IntN(8) == 0
	switch g.IntN(8) {
	default:
		g.write(&b, shape, spaced)
	case 0:
		b.WriteString([]string{"", byteOrderMark}[g.IntN(2)])
		for range 1 + g.IntN(4) {
			g.write(&b, shape, spaced)
			g.space(&b, true)
		}
	case 1, 2:
		b.WriteByte('[')
		for i := range 1 + g.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			g.write(&b, shape, spaced)
		}
		b.WriteByte(']')
	}
	text := b.String()
	if g.IntN(6) == 0 {
		at := g.IntN(len(text))
		switch g.IntN(3) {
		case 0:
			const spoils = "{}[],:\" \\0a.-e\x00\x80"
			n := g.IntN(len(spoils))
			text = text[:at] + spoils[n:n+1] + text[at+1:]
		case 1:
			text = text[:at]
		default:
			text = text[:at] + text[g.IntN(len(text)):]
		}
	}
	return text
}

func (g eventGenerator) space(b *strings.Builder, spaced bool) {
	if spaced {
		b.WriteString([]string{"", " ", "\n\t", "  "}[g.IntN(4)])
	}
}

func (g eventGenerator) write(b *strings.Builder, fields []field, spaced bool) {
	if g.IntN(5) == 0 { // another order
		fields = append([]field(nil), fields...)
		g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if len(fields) > 0 && g.IntN(8) == 0 { // one is missing
		fields = fields[:len(fields)-1]
	}
	b.WriteByte('{')
	for i, f := range fields {
		g.space(b, spaced)
		b.WriteString(`"` + f.name + `"`)
		g.space(b, spaced)
		b.WriteByte(':')
		g.space(b, spaced)
		g.writeField(b, f, spaced)
		g.space(b, spaced)
		if i < len(fields)-1 {
			b.WriteByte(',')
		}
	}
	b.WriteByte('}')
}

func (g eventGenerator) writeField(b *strings.Builder, f field, spaced bool) {
	switch {
	case g.IntN(30) == 0:
		b.WriteString(g.scalar())
	case f.isArray:
		b.WriteByte('[')
		for i := range g.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			if g.IntN(3) == 0 {
				b.WriteString(g.scalar())
			} else {
				g.write(b, f.fields, spaced)
			}
		}
		b.WriteByte(']')
	case f.value != nil:
		b.WriteString(f.value())
	default:
		g.write(b, f.fields, spaced)
	}
}

// scalar returns a value that is no object, or sometimes nothing.
func (g eventGenerator) scalar() string {
	switch g.IntN(9) {
	case 0:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 1:
		return strconv.FormatFloat(g.NormFloat64()*100, 'f', g.IntN(20), 64)
	case 2:
		return strconv.FormatFloat(g.NormFloat64()*100, 'e', -1, 64)
	case 3:
		return []string{"", `"`}[g.IntN(8)/7] + strconv.Itoa(g.IntN(200)-100) + []string{"", `"`, `,5"`}[g.IntN(9)/7]
	case 4:
		return []string{"true", "false", "null", "{}", "[]", "0", "-0", "-0.0", "0e5", "1E+2"}[g.IntN(10)]
	case 5:
		unusual := []string{
			"01", "-", "1.", "1e", ".5", "1e400", "-1e400", "1e-400", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
			"-9223372036854775809", "2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993", "99999999999999999999",
			"123456789012345678901234567890e-30", "0.000000000000000000000000000001", "1e22", "1e23", "tru", "nul", "+1", "NaN",
		}
		return unusual[g.IntN(len(unusual))]
	case 6:
		texts := []string{`"\n"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"é"`, "\"\xff\"", `"\x"`, `"\u0000"`, "\"a\tb\"", `"a\\"`, `"` + strings.Repeat("long ", g.IntN(20)) + `"`}
		return texts[g.IntN(len(texts))]
	}
	return `"` + "sensor-00421234567890"[:g.IntN(21)] + `"`
}

func (g eventGenerator) time() string {
	times := []string{
		`"2023-11-14T22:13:20Z"`, `"2023-11-14T22:13:20.123456+01:00"`, `"2023-11-14 22:13:20"`, `"2023-11-14T22:13:20+01"`, `"1700000000"`,
		"1700000000", "1700000000123", "1700000000123456", "1700000000123456789", "1700000000.25", "1.7e9", `"2023-02-29T00:00:00Z"`, `"x"`, "0",
	}
	if g.IntN(3) > 0 {
		return times[g.IntN(3)*5]
	}
	return times[g.IntN(len(times))]
}

func (g eventGenerator) meta() string {
	switch g.IntN(4) {
	case 0:
		return g.scalar()
	case 1:
		return `{"site":"a` + strconv.Itoa(g.IntN(10)) + `","host":` + g.scalar() + `}`
	case 2:
		return `{"z":[{"b":1,"a":` + g.scalar() + `}],"a":{"y":1,"x":{}}}`
	}
	return `"sensor-` + strconv.Itoa(g.IntN(100)) + `"`
}
