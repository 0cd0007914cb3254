package redrive

import (
	"context"
	"fmt"

	"waterwheel/dlq"
)

// sift takes out of the parcel the letters that are of no record, and those of a record that has another letter already. Only
// here is a letter's position taken: one that stays must not hide another.
func (d *driver) sift(ctx context.Context, b *parcel) error {
	fresh := b.letters[b.sifted:]
	claims := make([]claim, len(fresh))
	for i := range fresh {
		claims[i].letter = &fresh[i].Letter
	}
	if err := d.originals.check(ctx, claims); err != nil {
		return err
	}
	kept := make([]item, 0, len(b.letters))
	kept = append(kept, b.letters[:b.sifted]...)
	for i := range fresh {
		one := fresh[i]
		switch {
		case claims[i].wrong != "":
			d.stray(Stray{one.Place, claims[i].wrong})
		case !d.taken.Add(&one.Letter):
			d.report.Doubles++
		default:
			one.gone = claims[i].gone
			kept = append(kept, one)
		}
	}
	b.letters, b.sifted = kept, len(kept)
	return nil
}

// isForeign tells whether a letter stands in another dead-letter topic than that of the topic it names, and counts it.
func (d *driver) isForeign(f *dlq.Found) bool {
	if d.o.TopicFor == nil || d.o.TopicFor(f.Letter.Topic) == f.Topic {
		return false
	}
	d.stray(Stray{f.Place, fmt.Sprintf("letters of %q stand in %q", f.Letter.Topic, d.o.TopicFor(f.Letter.Topic))})
	return true
}

func (d *driver) stray(s Stray) {
	d.report.Strays++
	if d.o.Stray != nil {
		d.o.Stray(s)
	}
}
