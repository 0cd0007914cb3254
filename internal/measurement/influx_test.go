package measurement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
)

// lineOptions returns the default settings of lines.
func lineOptions() Options {
	o, _ := DefaultPaths(Influx)
	o.Format, o.StoredTime, o.StoredMeta = Influx, "time", "meta"
	return o
}

// TestLinesBecomeMeasurements checks the stored measurement of a line, with the types of its values.
func TestLinesBecomeMeasurements(t *testing.T) {
	d := newDecoder(t, lineOptions())
	for _, test := range []struct{ line, time, meta, fields string }{
		{`cpu,cpu=all,host=a idle=93.5,user=4i 1700000000123456789`, "1700000000123", `{"name":"cpu","tags":{"cpu":"all","host":"a"}}`, `{"idle":93.5,"user":4}`},
		{`cpu,host=a,cpu=all idle=1 1700000000123456789`, "1700000000123", `{"name":"cpu","tags":{"cpu":"all","host":"a"}}`, `{"idle":1.0}`},
		{`cpu idle=1`, "1700000060000", `{"name":"cpu","tags":{}}`, `{"idle":1.0}`},
		{"  \tcpu\t idle=1 \r\n", "1700000060000", `{"name":"cpu","tags":{}}`, `{"idle":1.0}`},
		{"# a comment\n\ncpu idle=1\n#another", "1700000060000", `{"name":"cpu","tags":{}}`, `{"idle":1.0}`},
		{"\ufeffcpu idle=1", "1700000060000", `{"name":"cpu","tags":{}}`, `{"idle":1.0}`},
		{`weather\ report,si\,te=nor\=th,a=\ x\\z y=1 1700000000000000000`, "1700000000000", `{"name":"weather report","tags":{"a":" x\\\\z","si,te":"nor=th"}}`, `{"y":1.0}`},
		{`m b=t,c=F,d=TRUE,e=false,s="a \"b\" \\ \n, =c" 1700000000000000000`, "1700000000000", `{"name":"m","tags":{}}`, `{"b":true,"c":false,"d":true,"e":false,"s":"a \"b\" \\ \\n, =c"}`},
		{"m s=\"two\nlines\",v=2 1700000000000000000", "1700000000000", `{"name":"m","tags":{}}`, `{"s":"two\nlines","v":2.0}`},
		{
			`m a=-1i,b=2147483648i,c=-9223372036854775808i,d=18446744073709551615u,e=7u,f=007i 1700000000000000000`, "1700000000000", `{"name":"m","tags":{}}`,
			`{"a":-1,"b":2147483648,"c":-9223372036854775808,"d":1.8446744073709552E+19,"e":7,"f":7}`,
		},
		{
			`m a=1.,b=.5,c=-.5,d=1e3,e=1.5E-3,f=+2,g=-0,h=12345678901234567890 1700000000000000000`, "1700000000000", `{"name":"m","tags":{}}`,
			`{"a":1.0,"b":0.5,"c":-0.5,"d":1000.0,"e":0.0015,"f":2.0,"g":-0.0,"h":1.2345678901234567E+19}`,
		},
		{`m a.b=1,a.c=2i 1700000000000000000`, "1700000000000", `{"name":"m","tags":{}}`, `{"a":{"b":1.0,"c":2}}`},
		{`m,größe=ü é="ä" 1700000000000000000`, "1700000000000", `{"name":"m","tags":{"größe":"ü"}}`, `{"é":"ä"}`},
		{`m v=1 1700000000`, "1700000000000", `{"name":"m","tags":{}}`, `{"v":1.0}`}, // the size of a time in seconds identifies its unit
	} {
		for range 2 { // the second time the names are known
			m := decodeOne(t, d, recordOf(test.line))
			var fields bytes.Buffer
			text, err := bson.MarshalExtJSON(document(t, m.Elements), false, false)
			if err == nil {
				err = json.Compact(&fields, text)
			}
			if got := fmt.Sprint(m.Time); err != nil || got != test.time || m.Meta.String() != asExtended(t, test.meta) || fields.String() != test.fields {
				t.Errorf("%s\nis %s %s %s, %v", test.line, got, m.Meta, &fields, err)
			}
		}
	}
}

// asExtended formats JSON as the driver does.
func asExtended(t *testing.T, text string) string {
	t.Helper()
	return bson.Raw(inBSON(t, text)).String()
}

// TestLinesAreStoredAsTelegrafsJSON checks that a change from one format to the other keeps series and values.
func TestLinesAreStoredAsTelegrafsJSON(t *testing.T) {
	asJSON := lineOptions()
	asJSON.Format = JSON
	lines, objects := newDecoder(t, lineOptions()), newDecoder(t, asJSON)
	for _, test := range []struct{ line, object string }{
		{
			`cpu,cpu=cpu-total,host=raynor usage_idle=93.1,n=7i 1772366400000000000`,
			`{"fields":{"usage_idle":93.1,"n":7},"name":"cpu","tags":{"host":"raynor","cpu":"cpu-total"},"timestamp":1772366400}`,
		},
		{
			`mem,host=raynor free=12345678901i,ok=true,state="fine, really" 1772366400000000000`,
			`{"fields":{"free":12345678901,"ok":true,"state":"fine, really"},"name":"mem","tags":{"host":"raynor"},"timestamp":1772366400}`,
		},
		{`up v=1.5 1772366400000000000`, `{"fields":{"v":1.5},"name":"up","tags":{},"timestamp":1772366400}`},
	} {
		line := record.Record{Timestamp: 1772366401000, Value: []byte(test.line)}
		object := record.Record{Timestamp: 1772366401000, Value: []byte(test.object)}
		if got, want := shown(t, decodeOne(t, lines, line)), shown(t, decodeOne(t, objects, object)); got != want {
			t.Errorf("%s\nis  %s\nand %s", test.line, got, want)
		}
	}
}

// TestBadLinesAreSaid checks the letters of invalid lines.
func TestBadLinesAreSaid(t *testing.T) {
	for _, test := range []struct {
		line   string
		reason Reason
		path   string
		says   string
	}{
		{`cpu`, NotInflux, "", "a space and a field must follow the name and the tags, but the record ends at byte 3: is it truncated?"},
		{`cpu,host=a`, NotInflux, "", "is it truncated?"},
		{`,host=a v=1`, NotInflux, "", `a line must begin with the name of its measurement; at byte 0 is ",host=a v=1"`},
		{`cpu,host v=1`, NotInflux, "", `a tag must be written name=value; at byte 8 is " v=1"`},
		{`cpu,host= v=1`, NotInflux, "", "a tag must have a value: leave the tag out; at byte 9"},
		{`cpu,=a v=1`, NotInflux, "", "a tag must be written name=value; at byte 4"},
		{`cpu v`, NotInflux, "", "a field must be written name=value"},
		{`cpu v=`, NotInflux, "fields.v", "a field needs a value"},
		{`cpu v=,w=1`, NotInflux, "fields.v", "a field needs a value: leave the field out; at byte 6"},
		{`cpu v=12x`, NotInflux, "fields.v", `"12x" is not a value: write a number, a number followed by i or u, true or false, or a string in quotes`},
		{`cpu v=NaN`, NotInflux, "fields.v", `"NaN" is not a value`},
		{`cpu v=0x1F`, NotInflux, "fields.v", `"0x1F" is not a value`},
		{`cpu v=1_0`, NotInflux, "fields.v", `"1_0" is not a value`},
		{`cpu v=tRUE`, NotInflux, "fields.v", `"tRUE" is not a value`},
		{`cpu v=-1u`, NotInflux, "fields.v", `"-1u" is not a value`},
		{`cpu v=1.5i`, NotInflux, "fields.v", `"1.5i" is not a value`},
		{`cpu v=9223372036854775808i`, BadNumber, "fields.v", "is a number that does not fit into 64 bits"},
		{`cpu v=1e999`, BadNumber, "fields.v", "is a number that does not fit into 64 bits"},
		{`cpu v="a`, NotInflux, "fields.v", "a string in quotes does not end"},
		{`cpu v=1 noon`, NotInflux, "", `only a timestamp (a number of nanoseconds since 1970) and the end of the line may follow the fields; at byte 8 is "noon"`},
		{`cpu v=1 17e9`, NotInflux, "", "at byte 10"},
		{`cpu v=1 -`, NotInflux, "", "no digits follow the minus"},
		{`cpu v=1 99999999999999999999`, BadTime, "timestamp", "does not fit into 64 bits"},
		{`cpu v=1 -5`, TimeOutOfRange, "timestamp", "1969"},
		{"cpu v=\"\xff\"", BadUTF8, "", "is not UTF-8"},
		{"cpu,a=b,a=c v=1", DuplicateField, "tags.a", ""},
		{"cpu v=1,v=2", DuplicateField, "fields.v", ""},
		{"cpu $v=1", BadFieldName, "fields.$v", ""},
		{"cpu time=1", DuplicateField, "fields.time", ""},
		{"cpu v\x00w=1", NotInflux, "", "a field must be written name=value"},
		{" \n# only a comment\n", Empty, "", "only blank lines and comments"},
		{`{"time":1700000000}`, NotInflux, "", "begins as JSON does: set EVENT_FORMAT=json"},
		{"\x1f\x8b\x08\x00", NotInflux, "", "is compressed by gzip: set EVENT_COMPRESSION=gzip"},
	} {
		err := refusal(t, newDecoder(t, lineOptions()), recordOf(test.line))
		if err.Reason != test.reason || err.Path != test.path || !strings.Contains(err.Detail, test.says) {
			t.Errorf("%q: %v, want %s at %q …%s…", test.line, err, test.reason, test.path, test.says)
		}
	}
}

// TestLinesAreParts checks that each line has a position, and that comments and blank lines have none. A bad line is a letter by
// itself, and does not affect others.
func TestLinesAreParts(t *testing.T) {
	lines := []string{"a v=1 1700000000000000000", "# comment", "a v=", `a s="two`, `lines" 1700000001000000000`, "", "a s=\"open", "a v=2 1700000002000000000\r"}
	r := recordOf(strings.Join(lines, "\n") + "\n")
	for _, change := range []func(*Options){
		func(*Options) {},
		func(o *Options) { o.Drop = []string{"other"}; o.Fields = "" },
		func(o *Options) { o.Skip = []string{"other=1"} },
		func(o *Options) { o.Compression = AutoCompression },
	} {
		o := lineOptions()
		change(&o)
		d := newDecoder(t, o)
		results, err := d.Decode(r)
		if err != nil || len(results) != 5 {
			t.Fatalf("%v, %v", results, err)
		}
		for part, want := range []string{"", "a v=", "", `a s="open`, ""} {
			result := results[part]
			if wrong := result.Err; wrong != nil {
				if wrong.Part != int32(part) || string(wrong.Value) != want || wrong.Reason != NotInflux {
					t.Errorf("part %d: %v with %q, want %q", part, wrong, wrong.Value, want)
				}
				if element, ok := d.Element(r, int32(part)); !ok || string(element) != want {
					t.Errorf("element %d is %q, want %q", part, element, want)
				}
			} else if want != "" || result.Measurement.Position.Part != int32(part) {
				t.Errorf("part %d is stored at %v, want the letter %q", part, result.Measurement.Position, want)
			}
		}
		if element, ok := d.Element(r, 2); !ok || string(element) != "a s=\"two\nlines\" 1700000001000000000" {
			t.Errorf("element 2 is %q", element)
		}
	}
	if _, ok := newDecoder(t, lineOptions()).Element(recordOf(lines[0]+"\n# comment\n"), 0); ok {
		t.Error("the only line of a record is an element")
	}
}

// TestCorpusOfLines compares the result with test cases of others. testdata/README.md names their origin.
func TestCorpusOfLines(t *testing.T) {
	text, err := os.ReadFile("testdata/line-protocol-corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for row := range strings.Lines(string(text)) {
		var c corpusCase
		decoder := json.NewDecoder(strings.NewReader(row))
		decoder.UseNumber()
		if err := decoder.Decode(&c); err != nil {
			t.Fatal(err)
		}
		lines, err := readCorpus(t, c.Text)
		switch {
		case !c.Error && err != nil:
			t.Errorf("%q is refused: %v", c.Text, err)
		case !c.Error:
			c.convert(t)
			if read++; len(lines)+len(c.Lines) > 0 && !reflect.DeepEqual(lines, c.Lines) {
				t.Errorf("%q is\n%v, want\n%v", c.Text, lines, c.Lines)
			}
		case err != nil:
			refused++
		case strings.ContainsFunc(c.Text, func(c rune) bool { return c < ' ' && c != '\n' || c == 0x7f }):
			// The corpus allows no control characters in names and between them.
		default:
			d := newDecoder(t, lineOptions()) // the rules of names decide about duplicate names
			if results, err := d.Decode(record.Record{Timestamp: recordTime, Value: []byte(c.Text)}); err == nil && results[0].Err == nil {
				t.Errorf("%q is read, and should be refused", c.Text)
			}
		}
	}
	if read < 250 || refused < 100 {
		t.Errorf("%d cases are read, and %d are refused", read, refused)
	}
}

type corpusCase struct {
	Text  string
	Error bool
	Lines []corpusLine
}

type corpusLine struct {
	Name   string
	Tags   map[string]string
	Fields [][]any
	Time   json.Number
	Absent bool
}

// convert converts the values of fields to their BSON types.
func (c *corpusCase) convert(t *testing.T) {
	t.Helper()
	for _, line := range c.Lines {
		for _, f := range line.Fields {
			for kind, value := range f[1].(map[string]any) {
				number, _ := value.(json.Number)
				whole, err := number.Int64()
				switch double, _ := number.Float64(); {
				case kind == "string" || kind == "bool":
					f[1] = value
				case kind == "float" || kind == "uint" && err != nil:
					f[1] = double
				default:
					f[1] = whole
				}
			}
		}
	}
}

// readCorpus parses lines into the form of the corpus.
func readCorpus(t *testing.T, text string) (lines []corpusLine, err error) {
	t.Helper()
	var l lineReader
	l.begin([]byte(text))
	for l.more() {
		raw, wrong := l.read(-1)
		if wrong != nil {
			return nil, wrong
		}
		var event struct {
			Name      string
			Tags      map[string]string
			Fields    bson.D
			Timestamp *int64
		}
		if err := bson.Unmarshal(raw, &event); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, corpusLine{Name: event.Name, Tags: event.Tags, Absent: event.Timestamp == nil})
		if event.Timestamp != nil {
			lines[len(lines)-1].Time = json.Number(fmt.Sprint(*event.Timestamp))
		}
		for _, f := range event.Fields {
			if small, ok := f.Value.(int32); ok {
				f.Value = int64(small)
			}
			lines[len(lines)-1].Fields = append(lines[len(lines)-1].Fields, []any{f.Key, f.Value})
		}
	}
	return lines, nil
}

// FuzzDecodeLines checks that lines read in one pass equal those read through their events.
func FuzzDecodeLines(f *testing.F) {
	for _, seed := range []string{
		exampleLine, exampleLine + "\n" + exampleLine, "a,b=c,d=e f=1i,g=\"x\\\"y\",h=t 1700000000000000000\r\n# c\na v=-1.5e3", `a\ b,c\,d=e\=f g\\=1u`,
		"m v=1,v=2", "m,b=1,a=2 v=1", "m,a.b=1 v.w=1", "m $v=1", "m time=1", "m s=\"a\nb\" 1\nm s=\"", "m v=\xff", "m v=00012i,w=1.,x=.5,y=+1",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(255))
	}
	f.Fuzz(func(t *testing.T, value []byte, choice uint8) {
		o := lineOptions()
		o.MaxBytes, o.TimeMin, o.TimeMax = 1<<16, At(firstMillis), At(lastMillis)
		if choice&1 != 0 {
			o.DottedNames = Reject
		}
		if choice&2 != 0 {
			o.TimeFormat = "unix_ns"
		}
		if choice&4 != 0 {
			o.Skip = []string{"name=m"}
		}
		if choice&8 != 0 {
			o.Fields, o.Drop, o.MetaFields = "", []string{"tags.a"}, []string{"name"}
		}
		if len(o.Skip) == 0 { // a skipped line has a position, but no result
			checkDecoded(t, o, value)
		}
		quick, walked, slow := newDecoder(t, o), newDecoder(t, o), newDecoder(t, o)
		walked.quickLines, slow.quickLines, slow.walker = nil, nil, nil
		r := record.Record{Offset: 1, Timestamp: recordTime, Key: value, Value: value}
		for range 2 {
			want := lineFates(t, slow, r)
			for name, d := range map[string]*Decoder{"in one pass": quick, "by their events": walked} {
				if got := lineFates(t, d, r); got != want {
					t.Fatalf("%q %s:\n%s\nwant\n%s", value, name, got, want)
				}
			}
		}
	})
}

// lineFates returns the results of a record as text.
func lineFates(t *testing.T, d *Decoder, r record.Record) string {
	results, err := d.Decode(r)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for i := range results {
		if wrong := results[i].Err; wrong != nil {
			fmt.Fprintf(&out, "%d %v %q\n", wrong.Part, wrong, wrong.Value)
			continue
		}
		fmt.Fprintf(&out, "%v %s\n", results[i].Measurement.Position, shown(t, results[i].Measurement))
	}
	return out.String()
}
