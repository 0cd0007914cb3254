package measurement

import (
	"fmt"
	"strings"
	"testing"
)

// TestEscapedNames checks that names with escapes equal those without, in any order. A name that needs escapes is not taken for a
// similar one.
func TestEscapedNames(t *testing.T) {
	const begin = `{"time":1700000000,"meta":"a",`
	for _, test := range []struct {
		name   string
		events []string
		quick  bool // the last record is read in one pass
	}{
		{"not ASCII", []string{`"temp\u00e9rature":1,"b":2}`, `"b":2,"temp\u00e9rature":1}`, `"temp\u00e9rature":3,"b":2}`}, true},
		{"both ways", []string{`"\u00e9":1}`, `"é":1}`, `"\u00E9":1,"b":1}`}, true},
		{"time and meta", []string{`"x":1}`, `"x":1,"\u0062":{"\u0063":1}}`}, true},
		{"twice", []string{`"é":1,"b":1}`, `"é":1,"\u00e9":1}`}, false},
		{"dotted", []string{`"a\u002eb":1,"a.\u00e9":2}`}, true},
		{"a quote", []string{`"a\"b":1,"c":1}`, `"c":1,"a"b":1}`, `"c":1,"a"b":1}`, `"a\"b":1,"c":1}`}, false},
		{"a backslash", []string{`"a\\nb":1,"c":1}`, `"c":1,"a\nb":1}`, `"a\\nb":1,"c":1}`}, false},
		{"a line's end", []string{`"a\nb":1,"c":1}`, "\"c\":1,\"a\nb\":1}"}, false},
		{"NUL", []string{`"a\u0000":1}`}, false},
		{"half a pair", []string{`"a\ud83d":1}`}, false},
		{"a whole pair", []string{`"a\ud83d\ude00":1}`, `"a😀":1}`}, true},
		{"a dollar", []string{`"\u0024a":1}`}, false},
		{"reserved", []string{`"\u0074ime":1}`}, false},
		{"long", []string{`"` + strings.Repeat(`\u00e9`, maxLiteral) + `":1}`}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, options := range []Options{plainOptions, {TimeField: "time", MetaField: "meta", DottedNames: Reject}, {TimeField: "time", MetaField: "meta", Format: ExtJSON}} {
				p, ok := newFastPair(options)
				if !ok {
					t.Fatal("no decoders")
				}
				for range 2 {
					for _, event := range test.events {
						p.check(t, recordOf(begin+event))
					}
				}
				if quick := p.fast.quick.missed == 0; quick != test.quick && (options.DottedNames != Reject || test.name != "dotted") {
					t.Errorf("read in one pass: %v, want %v", quick, test.quick)
				}
			}
		})
	}
}

// TestManyDottedGroups checks that dotted names of many objects are read in one pass.
func TestManyDottedGroups(t *testing.T) {
	p, ok := newFastPair(plainOptions)
	if !ok {
		t.Fatal("no decoders")
	}
	for _, groups := range []int{40, mostDotted, mostDotted + 1} {
		event := `{"time":1700000000,"meta":"a"`
		for i := range groups {
			event += fmt.Sprintf(`,"group%d.a":1.5,"group%d.b":2`, i, i)
		}
		for range 2 {
			p.check(t, recordOf(event+"}"))
		}
		if quick := p.fast.quick.missed == 0; quick != (groups <= mostDotted) {
			t.Errorf("%d groups are read in one pass: %v", groups, quick)
		}
	}
}
