package check

import (
	"fmt"
	"strings"

	"waterwheel/internal/measurement"
)

// note describes what is odd about the values of a stored field: the loss, the values, and what to do.
type note struct {
	path, loss, is, wayOut string
}

// notes returns what is odd about the values of the fields that some options store.
func (p *proposer) notes(o measurement.Options) (list []note) {
	decimals := map[string]bool{}
	for _, f := range p.list() {
		if !p.isField(o, f.path) || strings.Contains(f.path, "[]") || f.path == areaOf(o) {
			continue
		}
		for _, look := range []func(*field, measurement.Options, map[string]bool) note{p.decimal, p.mixed, p.numerals, p.rows, p.texted} {
			if one := look(f, o, decimals); one.is != "" {
				one.path = f.path
				list = append(list, one)
				break
			}
		}
	}
	return list
}

// decimal checks for numbers that come as the bytes of their digits, in base64.
func (p *proposer) decimal(f *field, _ measurement.Options, objects map[string]bool) note {
	n := note{loss: "the numbers of " + f.path, wayOut: "send numbers: decimal.handling.mode=double in Debezium, decimal.format=NUMERIC in Kafka Connect's JSON converter"}
	if of, ok := strings.CutSuffix(f.path, ".value"); ok && objects[of] {
		return note{}
	}
	known, isKnown := p.decimals[f.path]
	scale, value := p.at(f.path+".scale"), p.at(f.path+".value")
	switch {
	case isKnown && !known.variable && f.texts > 0:
		n.is = "is a decimal in base64, according to the schema in the record"
		if number := known.read(f.text.text); number != "" {
			n.is += fmt.Sprintf(": %s is %s", f.text, number)
		}
	case f.objects > 0 && scale.numbers > 0 && value.encoded+value.texts > 0 && (isKnown || value.encoded*2 >= value.texts):
		objects[f.path] = true
		n.is = "is an object of a scale and a decimal in base64"
	case f.encoded > 0 && f.encoded*2 >= f.texts:
		n.is = fmt.Sprintf("is base64 (such as %s) of bytes or of a decimal", f.text)
	}
	return n
}

// mixed checks for values that are numbers in some events and something else in others.
func (p *proposer) mixed(f *field, o measurement.Options, _ map[string]bool) note {
	numbers, texts := f.numbers, f.texts
	if o.Numbers == measurement.NumbersInText {
		numbers, texts = numbers+f.numerals, texts-f.numerals
	}
	kinds := []struct {
		n    int
		name string
	}{{numbers, "a number"}, {texts, "a string"}, {f.flags, "true or false"}, {f.objects, "an object"}, {f.lists, "a list"}}
	var list []string
	for _, kind := range kinds {
		if kind.n > 0 {
			list = append(list, fmt.Sprintf("%s in %s", kind.name, plural(kind.n, "event")))
		}
	}
	if len(list) < 2 {
		return note{}
	}
	n := note{loss: "some values of " + f.path + " in sums", is: "is " + strings.Join(list, ", "), wayOut: "send one type, and null or nothing where there is no value"}
	if numbers > 0 && texts > 0 {
		n.is += fmt.Sprintf(" (%s at %s)", f.text, p.where(f.text.at))
	}
	return n
}

// numerals checks for numbers that come as texts.
func (p *proposer) numerals(f *field, o measurement.Options, _ map[string]bool) note {
	if f.inNumbers()*2 < f.texts || f.texts == 0 {
		return note{}
	}
	if o.Numbers == measurement.NumbersInText && f.commas+f.units == 0 || !p.isQuantity(f) {
		return note{}
	}
	how := "a number"
	switch {
	case f.units > 0:
		how = "a number with a unit"
	case f.commas > 0:
		how = "a number with a comma"
	}
	return note{
		loss:   "calculations with " + f.path,
		is:     fmt.Sprintf("is %s in a string in %s of %s, such as %s, and is stored as a string", how, count(f.inNumbers()), plural(f.seen-f.nulls, "event"), f.text),
		wayOut: "set EVENT_NUMBERS=text, or send numbers without quotes",
	}
}

// isQuantity reports whether a field may be a quantity according to its name. Otherwise a number may be a name, or a time.
func (p *proposer) isQuantity(f *field) bool {
	c := classOf(f.path)
	named := c == unnamed || c == aspect || c == state && in("state status level", headWord(f.path))
	return named && !(timeRank(leaf{f, f.path}) > 0 && len(f.text.text) > 8)
}

// rows checks for lists of objects. Queries do not reach a single reading in them.
func (p *proposer) rows(f *field, _ measurement.Options, _ map[string]bool) note {
	if f.rows == 0 {
		return note{}
	}
	for path, inner := range p.fields {
		if strings.HasPrefix(path, f.path+"[].") && inner.numbers+inner.numerals > 0 {
			return note{
				loss:   "the single values in " + f.path,
				is:     fmt.Sprintf("is a list of up to %s, and is stored as one value", plural(f.longest, "object")),
				wayOut: "split the list with EVENT_LIST=" + f.path + ", or leave it out with EVENT_DROP",
			}
		}
	}
	return note{}
}

// texted checks for texts that hold JSON.
func (p *proposer) texted(f *field, _ measurement.Options, _ map[string]bool) note {
	if f.documents*2 <= f.texts || f.texts == 0 {
		return note{}
	}
	return note{loss: "the values in " + f.path, is: "is a string that contains JSON, and is stored as a string", wayOut: "set EVENT_PARSE=" + f.path + ", or send the object itself"}
}
