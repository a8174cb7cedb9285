// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/grpclog"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(&failures)
	vmtest.Main(m)
}

// failures is gRPC's logger. The test cases of package interop report a failure as a fatal message.
var failures = logger{LoggerV2: grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)}

// logger makes fatal messages fail the running test. It discards the others.
type logger struct {
	grpclog.LoggerV2
	test atomic.Pointer[testing.T]
}

// use makes t the running test until its end.
func (l *logger) use(t *testing.T) {
	l.test.Store(t)
	t.Cleanup(func() { l.test.Store(nil) })
}

// Fatal does not return, because gRPC exits after it.
func (l *logger) Fatal(args ...any) {
	t := l.test.Load()
	if t == nil {
		panic(fmt.Sprint(args...))
	}
	t.Helper()
	t.Fatal(strings.TrimSpace(fmt.Sprint(args...)))
}

func (l *logger) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }
func (l *logger) Fatalln(args ...any)               { l.Fatal(fmt.Sprintln(args...)) }
