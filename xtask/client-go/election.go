package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// One lease, two candidates: one of this library and one of the workspace's,
// which is a program of its own and a controller for Bars.
var electionSteps = []step{
	{"the candidate in Rust leads, and the one in Go waits", rustLeads},
	{"when the leader in Rust ends well, Go leads at once", goFollows},
	{"while Go leads, the candidate in Rust waits", rustWaits},
	{"when Go gives the lease back, Rust leads with its next attempt", rustFollows},
	{"when the leader in Rust is killed, Go leads after the lease has run out", goTakesOver},
}

const (
	leaseName     = "bar-controller"
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// What the steps hand on.
var election struct {
	rust *exec.Cmd
	logs bytes.Buffer
	// Of the candidate in Go.
	leading chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
}

func (s *stage) startRust() error {
	rust := exec.Command(s.candidate,
		"--kubeconfig", s.kubeconfig,
		"--namespaces", s.namespace,
		"--install-kinds",
		"--leader-elect", "--leader-elect-namespace", s.namespace,
		"--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.5")
	rust.Stderr, rust.Stdout = &election.logs, &election.logs
	election.rust = rust
	return rust.Start()
}

func (s *stage) startGo(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	leading, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: leaseName, Namespace: s.namespace},
			Client:     s.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "go"},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		stop()
		return err
	}
	election.leading, election.stop, election.ended = leading, stop, ended
	go func() {
		elector.Run(ctx)
		close(ended)
	}()
	return nil
}

// Who holds the lease, and how often it went to another.
func (s *stage) holder(ctx context.Context) (string, int32, error) {
	lease, err := s.client.CoordinationV1().Leases(s.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return "", 0, err
	}
	if lease.Spec.HolderIdentity == nil || lease.Spec.LeaseTransitions == nil {
		return "", 0, fmt.Errorf("no holder yet")
	}
	return *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, nil
}

func (s *stage) rustHolds(ctx context.Context) error {
	holder, _, err := s.holder(ctx)
	if err != nil {
		return fmt.Errorf("%w; the candidate said:\n%s", err, election.logs.String())
	}
	if holder == "" || holder == "go" {
		return fmt.Errorf("the holder is %q; the candidate said:\n%s", holder, election.logs.String())
	}
	return nil
}

func (s *stage) goLeads(within time.Duration) error {
	select {
	case <-election.leading:
		return nil
	case <-time.After(within):
		return fmt.Errorf("go does not lead after %v; the candidate said:\n%s", within, election.logs.String())
	}
}

func rustLeads(ctx context.Context, s *stage) error {
	if err := s.startRust(); err != nil {
		return err
	}
	if err := eventually(ctx, func() error { return s.rustHolds(ctx) }); err != nil {
		return err
	}
	if err := s.startGo(ctx); err != nil {
		return err
	}
	// Longer than the lease, so that a renewal must have been seen.
	if s.goLeads(leaseDuration+time.Second) == nil {
		return fmt.Errorf("go leads beside rust")
	}
	return s.rustHolds(ctx)
}

func goFollows(ctx context.Context, s *stage) error {
	began := time.Now()
	if err := election.rust.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := election.rust.Wait(); err != nil {
		return fmt.Errorf("%w; the candidate said:\n%s", err, election.logs.String())
	}
	if took := time.Since(began); took > leaseDuration {
		return fmt.Errorf("rust took %v to end; the candidate said:\n%s", took, election.logs.String())
	}
	if err := s.goLeads(leaseDuration - time.Second); err != nil {
		return err
	}
	holder, transitions, err := s.holder(ctx)
	if err != nil {
		return err
	}
	return same("holder and transitions", fmt.Sprintf("%s %d", holder, transitions), "go 1")
}

func rustWaits(ctx context.Context, s *stage) error {
	if err := s.startRust(); err != nil {
		return err
	}
	for end := time.Now().Add(leaseDuration + time.Second); time.Now().Before(end); {
		holder, _, err := s.holder(ctx)
		if err != nil {
			return err
		}
		if err := same("holder", holder, "go"); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

func rustFollows(ctx context.Context, s *stage) error {
	election.stop()
	<-election.ended
	began := time.Now()
	if err := eventually(ctx, func() error { return s.rustHolds(ctx) }); err != nil {
		return err
	}
	// A candidate looks again after one to 2.2 retries, before the lease would have run out.
	if took := time.Since(began); took > 2*time.Second {
		return fmt.Errorf("rust waited %v for a lease that was given back", took)
	}
	return nil
}

func goTakesOver(ctx context.Context, s *stage) error {
	if err := s.startGo(ctx); err != nil {
		return err
	}
	defer func() { election.stop(); <-election.ended }()
	if err := election.rust.Process.Kill(); err != nil {
		return err
	}
	election.rust.Wait()
	began := time.Now()
	if err := s.goLeads(patience); err != nil {
		return err
	}
	if took := time.Since(began); took < time.Second {
		return fmt.Errorf("go led %v after the kill, before the lease can have run out", took)
	}
	return nil
}
