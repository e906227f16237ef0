package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"keyfold/service/dashboard"
)

// alerts asks Prometheus.
type alerts struct {
	base           url.URL
	user, password string
	client         http.Client
}

// newAlerts returns nil where no address is set. The error does not repeat the address, which may
// hold a password.
func newAlerts(address string) (*alerts, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // documented
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("PROMETHEUS_URL is no address: it must be like http://prometheus:9090")
	}
	p := &alerts{base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + "/api/v1/alerts"}, client: http.Client{Timeout: 3 * time.Second}}
	if base.User != nil {
		p.user = base.User.Username()
		p.password, _ = base.User.Password()
	}
	return p, nil
}

// maxAnswer bounds what is read of an answer: another server may listen there.
const maxAnswer = 4 << 20

// ask returns the alerts that fire or are pending, the firing ones first, those of keyfold alone.
func (p *alerts) ask(ctx context.Context) ([]dashboard.Alert, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.String(), nil)
	if err != nil {
		return nil, err
	}
	if p.user != "" {
		request.SetBasicAuth(p.user, p.password)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no answer from Prometheus; check that it runs, and that PROMETHEUS_URL is right (%w)", unwrapURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer of Prometheus is %s: is PROMETHEUS_URL right?", response.Status)
	}
	var answer alertsAnswer
	if err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err == nil && answer.Status != "success" {
		err = fmt.Errorf("its status is %q: %s", answer.Status, answer.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("what answers at PROMETHEUS_URL is not Prometheus: %w", err)
	}
	return answer.ofKeyfold(), nil
}

// alertsAnswer is Prometheus's answer at /api/v1/alerts.
type alertsAnswer struct {
	Status, Error string
	Data          struct {
		Alerts []struct {
			Labels, Annotations map[string]string
			State               string
			ActiveAt            time.Time
			Value               string
		}
	}
}

func (answer *alertsAnswer) ofKeyfold() (all []dashboard.Alert) {
	for _, one := range answer.Data.Alerts {
		_, anchor, _ := strings.Cut(one.Annotations["runbook_url"], "RUNBOOK.md#")
		if !strings.HasPrefix(one.Labels["alertname"], "Keyfold") {
			continue
		}
		all = append(all, dashboard.Alert{
			Name: one.Labels["alertname"], State: one.State, Severity: one.Labels["severity"], Summary: one.Annotations["summary"],
			Runbook: anchor, Since: one.ActiveAt, Value: one.Value,
		})
	}
	slices.SortStableFunc(all, func(a, b dashboard.Alert) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Since.Compare(b.Since)) // "firing" is before "pending"
	})
	return all
}

// unwrapURL leaves the address out of an error.
func unwrapURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}
