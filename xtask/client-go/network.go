package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
)

// The way to the server, which can be watched and cut.
type network struct {
	mu          sync.Mutex
	connections map[net.Conn]struct{}
	down        bool
	// Watches that are answered with 410 before one goes through.
	gone     int
	requests []request
}

// A request that was made, and how bodies travelled.
type request struct {
	method, path, query   string
	sent, asked, answered string
}

// A configuration whose clients go through a network of their own.
func (s *stage) network() (*network, *rest.Config) {
	n := &network{connections: map[net.Conn]struct{}{}}
	config := rest.CopyConfig(s.config)
	config.Dial = n.dial
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{n, next} })
	return n, config
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, fmt.Errorf("the network is down: %w", syscall.ECONNREFUSED)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err == nil {
		n.mu.Lock()
		n.connections[conn] = struct{}{}
		n.mu.Unlock()
	}
	return conn, err
}

// Breaks all connections, and lets no new one through until `up`.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for conn := range n.connections {
		// As if the other side had gone: the client reads an end of file.
		conn.(*net.TCPConn).CloseRead()
	}
	clear(n.connections)
}

func (n *network) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

// Answers the next watch as a server does that has forgotten its version.
func (n *network) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone++
}

// How many requests there were that this says yes to.
func (n *network) count(is func(request) bool) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, r := range n.requests {
		if is(r) {
			count++
		}
	}
	return count
}

type recorder struct {
	network *network
	next    http.RoundTripper
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.RawQuery, "watch=true") && r.network.isGone() {
		return gone(req), nil
	}
	answer, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.network.requests = append(r.network.requests, request{
		method:   req.Method,
		path:     req.URL.Path,
		query:    req.URL.RawQuery,
		sent:     req.Header.Get("Content-Type"),
		asked:    req.Header.Get("Accept"),
		answered: answer.Header.Get("Content-Type"),
	})
	return answer, nil
}

func (n *network) isGone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone == 0 {
		return false
	}
	n.gone--
	return true
}

func gone(req *http.Request) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version","reason":"Expired","code":410}`
	return &http.Response{
		Status:     "410 Gone",
		StatusCode: http.StatusGone,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewBufferString(body)),
		Request:    req,
	}
}
