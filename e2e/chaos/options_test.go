package chaos

import (
	"testing"
	"time"
)

func TestChurnMakesOnlyMembersComeAndGoMoreOften(t *testing.T) {
	rates := func(o *Options) map[string]float64 { // disturbances per minute
		rates := map[string]float64{}
		for _, name := range o.Actions {
			rates[name] += time.Minute.Seconds() / o.Every.Seconds() / float64(len(o.Actions))
		}
		return rates
	}
	o := Options{Actions: DefaultActions(), Every: 3 * time.Second}
	before := rates(&o)
	o.Churn(2)
	for name, rate := range rates(&o) {
		want := map[string]float64{"kill": 2, "freeze": 2, "leave": 2, "join": 2}[name]
		if times := rate / before[name]; times < max(want, 1)-0.01 || times > max(want, 1)+0.01 {
			t.Errorf("%s comes %.2f times as often", name, times)
		}
	}
}
