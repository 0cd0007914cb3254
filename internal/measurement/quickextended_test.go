package measurement

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// extendedSeeds are events in Extended JSON, and nearly correct ones.
var extendedSeeds = []string{
	`{"time":{"$date":{"$numberLong":"1700000000123"}},"meta":{"site":"a1","host":"b"},"temp":{"$numberDouble":"21.375"},"n":{"$numberInt":"47"},"x":1.5}`,
	`{"time": {"$date": "2023-11-14T22:13:20.5+01:00"}, "meta": {"$oid": "0123456789abcdef01234567"}, "x": {"$numberLong": "5"}, "y": {"$numberDecimal": "1.50"}}`,
	`{ "time" : { "$date" : 1700000000123 } , "meta" : { "b" : { "$numberInt" : "-1" } , "a" : [ { "$numberLong" : "-0" } ] } , "x" : { "y" : { "$numberDouble" : "NaN" } } }`,
	`{"time":{"$numberLong":"1700000000"},"meta":{"$numberInt":"1"},"x":[{"$oid":"0123456789ABCDEF01234567"},{"a":{"$date":{"$numberInt":"5"}}}]}`,
	`{"time":{"$numberDouble":"1700000000.25"},"meta":{"$date":"2023-11-14T22:13:20Z"},"a":{"time":{"$date":0},"meta":{"$numberInt":"7"}},"x.y":{"$numberInt":"+007"}}`,
	`{"at":{"$date":"2023-11-14T22:13:20Z"},"p":{"meta":{"$oid":"0123456789abcdef01234567"},"a":{"b":{"$numberInt":"2"}},"x":{"y":{"$numberLong":"1"},"z":{"a":{"$oid":"0"}}}}}`,
	`{"time":{"$numberInt":"1700000000"},"meta":1,"x":{"$numberInt":"2147483648"}}`,
	`{"time":1700000000,"meta":1,"x":{"$numberInt":1},"y":{"$numberLong":"x"}}`,
	`{"time":1700000000,"meta":1,"x":{"$date":{"$date":1}},"y":{"$date":"soon"}}`,
	`{"time":1700000000,"meta":1,"x":{"$date":1.5}}`, `{"time":1700000000,"meta":1,"x":{"$date":{"$numberDouble":"1"}}}`,
	`{"time":1700000000,"meta":1,"x":{"$numberInt":"1","$numberInt":"1"}}`, `{"time":1700000000,"meta":1,"x":{"$numberInt":"1","y":2}}`,
	`{"time":1700000000,"meta":1,"x":{"y":2,"$numberInt":"1"}}`, `{"time":1700000000,"meta":1,"x":{"$set":1},"y":{"$":"1"}}`,
	`{"time":1700000000,"meta":{"$numberDouble":"1e400"},"x":{"$numberDouble":"1_0"},"y":{"$numberDouble":"-Infinity"}}`,
	`{"time":1700000000,"meta":{"$undefined":true},"x":{"$minKey":1},"y":{"$binary":{"base64":"AQID","subType":"00"}}}`,
	`{"time":1700000000,"meta":1,"x":{"$numberDecimal":"1E+9999"},"y":{"\u0024oid":"0123456789abcdef01234567"}}`,
	`{"$date":1700000000}`, `{"time":{"$date":`, `{"time":{"$`, `{"time":{"$date":1}`, `{"time":1700000000,"meta":{"$oid":"0123456789abcdef0123456"}}`,
	`{"time":1700000000,"meta":1,"x":{"$numberLong":"` + strings.Repeat("0", 100) + `1"},"y":{"$numberDouble":"0.` + strings.Repeat("1", 60) + `"}}`,
}

// FuzzFastExtJSON is FuzzFastPath for Extended JSON. Values are wrapped in some records and not in others.
func FuzzFastExtJSON(f *testing.F) {
	for i, value := range extendedSeeds {
		next := extendedSeeds[(i+1)%len(extendedSeeds)]
		for _, choice := range []uint32{0, 1, 2, 4, 8, 16, 32, 64, 96, 2 << 9, 3 << 9, 5 << 14} {
			f.Add([]byte(value), []byte(next), []byte(fastSeeds[i%len(fastSeeds)]), choice)
		}
	}
	f.Fuzz(func(t *testing.T, first, second, third []byte, choice uint32) {
		p, ok := newFastPair(fastOptions(choice | 1<<8))
		if !ok {
			return
		}
		for i, value := range [][]byte{first, second, third, second, first} {
			p.check(t, record.Record{Offset: int64(i), Timestamp: recordTime, Key: third, Value: value})
		}
	})
}

// TestFastPathAgreesOnExtendedJSON gives random events with many wrapped values to a decoder and to one without the quick reader.
func TestFastPathAgreesOnExtendedJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := eventGenerator{rand.New(rand.NewPCG(seed, 0))}
	stored, quick, wrapped := 0, 0, 0
	for range 500 {
		p, ok := newFastPair(fastOptions(g.choice() | 1<<8))
		if !ok {
			continue
		}
		shape := g.shape(p.options)
		for i := range 12 {
			value := g.wrap(g.record(p.options, shape))
			p.check(t, record.Record{Offset: int64(i), Timestamp: recordTime, Key: []byte(g.wrap(`{"a":1}`)), Value: []byte(value)})
			if results := p.judge.results; len(results) > 0 && p.judge.badParts == 0 {
				stored++
				if p.fast.quick.missed == 0 {
					quick++
					wrapped += strings.Count(value, "$")
				}
			}
		}
	}
	t.Logf("%d records stored, %d of them in one pass, with %d wrapped values", stored, quick, wrapped)
	if stored < 500 || quick < stored*6/10 || wrapped < 500 {
		t.Error("the quick reader is hardly tried")
	}
}

// plainMember matches a member of an object, or an item of an array, that is a short number or text.
var plainMember = regexp.MustCompile(`([:,[]\s*)(-?[0-9.]{1,20}|"[^"\\$]*")(\s*[,}\]])`)

// wrap wraps some values of a text as Extended JSON does, most of them correctly.
func (g eventGenerator) wrap(text string) string {
	return plainMember.ReplaceAllStringFunc(text, func(member string) string {
		parts := plainMember.FindStringSubmatch(member)
		space := strings.Repeat(" ", g.IntN(8)/7)
		value := strings.Trim(parts[2], `"`)
		if parts[2] != value && (parts[1] == "," || parts[3] == ":") { // it may be a name
			return member
		}
		var name, written string
		switch odds := g.IntN(24); {
		case odds > 12:
			return member
		case odds == 0:
			name, written = pick(g.Rand, "$numberInt", "$numberLong", "$numberDouble", "$oid", "$date", "$numberDecimal", "$uuid", "$x", "$"), `"`+value+`"`
		case odds == 1:
			name, written = "$oid", `"0123456789abcdef01234567"`
		case odds == 2:
			name, written = "$numberDecimal", `"1.50"`
		case parts[2] != value && strings.Contains(value, "T22:"):
			name, written = "$date", `"`+value+`"`
		case parts[2] != value:
			return member
		case len(value) == 13:
			name, written = "$date", pick(g.Rand, value, `{"$numberLong":"`+value+`"}`, `{ "$numberInt" : "1" }`)
		case strings.Contains(value, "."):
			name, written = "$numberDouble", `"`+value+`"`
		default:
			name, written = pick(g.Rand, "$numberLong", "$numberDouble", "$numberInt"), `"`+value+`"`
		}
		return parts[1] + "{" + space + `"` + name + `":` + space + written + space + "}" + parts[3]
	})
}
