package redrive

import (
	"context"
	"fmt"
	"slices"

	"waterwheel/dlq"
)

// filter removes from the batch the letters that belong to no record, and the letters of a record that already has a letter. Only
// here the position of a letter is marked as taken. A letter that stays must not hide another one.
func (d *driver) filter(ctx context.Context, b *batch) error {
	fresh := b.letters[b.checked:]
	if err := d.originals.check(ctx, fresh); err != nil {
		return err
	}
	kept := slices.DeleteFunc(fresh, func(one item) bool {
		switch {
		case one.wrong != "":
			d.stray(Stray{one.Place, one.wrong})
		case !d.taken.Add(&one.Letter):
			d.report.Doubles++
		default:
			return false
		}
		return true
	})
	b.checked += len(kept)
	b.letters = b.letters[:b.checked]
	return nil
}

// isForeign reports whether a letter is in another dead-letter topic than that of the topic it names, and counts it.
func (d *driver) isForeign(f *dlq.Found) bool {
	if d.o.TopicFor == nil || d.o.TopicFor(f.Letter.Topic) == f.Topic {
		return false
	}
	d.stray(Stray{f.Place, fmt.Sprintf("dead letters of topic %q belong in the dead-letter topic %q", f.Letter.Topic, d.o.TopicFor(f.Letter.Topic))})
	return true
}

func (d *driver) stray(s Stray) {
	d.report.Strays++
	if d.o.Stray != nil {
		d.o.Stray(s)
	}
}
