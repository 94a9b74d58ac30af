// Package soak puts three proxies, which share a Redis with Sentinels and a pool
// of upstreams, under a mixed load of many clients and sites, for as long as its
// test is told, with faults or without.
//
//	go test ./internal/soak -v -for 2m
//	go test ./internal/soak -v -for 5m -chaos
//
// What the proxies do right is judged by the origin: it knows whose session each
// cookie is, which values were answered, and which tokens were spent.
package soak
