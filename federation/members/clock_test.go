package members

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A pod has waited for as long as it has, whatever the clock of its cluster shows.
func TestAClockThatIsOff(t *testing.T) {
	for name, off := range map[string]time.Duration{"right": 0, "behind": -10 * time.Minute, "ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostHarness(t, Options{})
				defer w.end()
				paris := w.server("paris")
				paris.set(func(s *server) { s.off = off })
				w.after(time.Minute)
				created := time.Now()
				paris.put("pods", aPod("a", "web", func(p *v1.Pod) {
					p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
					p.CreationTimestamp = metav1.NewTime(created.Add(off))
				}))
				w.after(2 * time.Minute)
				c := w.members.Get("paris")
				p := c.Pods(Local{ReplicaSet, "shop", "web"})
				now := time.Now()
				two, _ := p.Late(now, 2*time.Minute)
				if more, _ := p.Late(now, 2*time.Minute+time.Second); two != 1 || more != 0 {
					t.Errorf("%d have waited for two minutes, and %d for longer", two, more)
				}
				if next, want := p.Next(time.Now(), 5*time.Minute),
					created.Add(5*time.Minute).Truncate(time.Second); next.Truncate(time.Second) != want {
					t.Errorf("next %s, want %s", next, want)
				}
				if got := c.HostTime(created.Add(off)); !got.Equal(created) {
					t.Errorf("%s, want %s", got, created)
				}
			})
		})
	}
}

func TestSkewOf(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 600_000_000, time.UTC)
	for date, want := range map[string]time.Duration{
		"": 0, "yesterday": 0, "Wed, 01 Jul 2026 12:00:04 GMT": 0, "Wed, 01 Jul 2026 11:59:56 GMT": 0,
		"Wed, 01 Jul 2026 12:00:05 GMT": 5 * time.Second, "Wed, 01 Jul 2026 11:00:00 GMT": -time.Hour,
	} {
		if got := skewOf(http.Header{"Date": {date}}, now); got != want {
			t.Errorf("%q: %s, want %s", date, got, want)
		}
	}
}

// Before credentials expire it is reported, by a reason and one event, in the last fifth of their
// lifetime.
func TestCredentialsThatExpireSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostHarness(t, Options{})
		defer w.end()
		payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d,"exp":%d}`, time.Now().Unix(),
			time.Now().Add(100*time.Minute).Unix()))
		token := "header." + payload + ".signature"
		w.net.up(at("paris"), newServer("uid-of-paris", token))
		w.join("paris", w.kubeconfigOf("paris", token))
		w.after(79 * time.Minute)
		w.says("paris", fine)
		w.after(2 * time.Minute)
		w.says("paris", "Reachable=True/Ready CredentialsValid=True/ExpiringSoon")
		c := meta.FindStatusCondition(w.get("paris").Status.Conditions, v1alpha1.ConditionCredentialsValid)
		if !strings.Contains(c.Message, "evenkeel cluster join") {
			t.Error(c.Message)
		}
		w.after(10 * time.Minute)
		if n := len(w.events.Events); n != 1 || !strings.HasPrefix(<-w.events.Events, "Warning CredentialsExpiring") {
			t.Errorf("%d events", n)
		}
	})
}

func TestWarnAt(t *testing.T) {
	for lifetime, want := range map[time.Duration]time.Duration{24 * time.Hour: 24 * time.Hour / 5, 365 * 24 * time.Hour: expiresSoon} {
		if got := noon.Add(lifetime).Sub(warnAt(noon, noon.Add(lifetime))); got != want {
			t.Errorf("lifetime %s: %s before, want %s", lifetime, got, want)
		}
	}
	if !warnAt(noon, time.Time{}).IsZero() {
		t.Error("credentials that do not expire do so soon")
	}
}
