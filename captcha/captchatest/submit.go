package captchatest

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func readFile(r *http.Request) []byte {
	f, header, err := r.FormFile("file")
	if err != nil {
		return nil
	}
	defer f.Close()
	content, _ := io.ReadAll(f)
	if content == nil {
		content = []byte{}
	}
	r.Form.Set("filename", header.Filename)
	return content
}

// submit is in.php.
func (s *Service) submit(now time.Time, from string, in input) answer {
	s.recent = append(slices.DeleteFunc(s.recent, func(t time.Time) bool { return now.Sub(t) > 3*time.Second }), now)
	if len(s.recent) > 60 {
		s.banned[from] = now.Add(10 * time.Second)
		return failed("MAX_USER_TURN")
	}
	if code := s.judge(in); code != "" {
		return failed(code)
	}
	if s.openTasks(now)+s.foreign >= s.threads {
		s.refused++
		if s.o.NoSlot {
			return failed("ERROR_NO_SLOT_AVAILABLE")
		}
		return failed("ERROR_ZERO_BALANCE")
	}
	t := &task{Task: Task{ID: number(len(s.order)), Method: in.params.Get("method"), Params: in.params, Image: in.image, Created: now}}
	t.outcome = s.o.Outcome(t.Task)
	s.tasks[t.ID] = t
	s.order = append(s.order, t)
	s.most = max(s.most, s.openTasks(now))
	if t.Method == "userrecaptcha" {
		id, _ := strconv.Atoi(t.ID)
		return answer{value: id} // an integer, as was seen of the real one
	}
	return answer{value: t.ID}
}

// solveAtOnce is solve.php: in.php without asking again, for images.
func (s *Service) solveAtOnce(now time.Time, from string, in input) answer {
	if m := in.params.Get("method"); m != "post" && m != "base64" {
		return failed("ERROR_BAD_PARAMETERS")
	}
	a := s.submit(now, from, in)
	if a.code != "" {
		return a
	}
	t := s.order[len(s.order)-1]
	t.outcome.After = 0
	return s.solved(t)
}

func (s *Service) judge(in input) string {
	get := in.params.Get
	switch get("method") {
	case "userrecaptcha":
		return first(judgeSiteKey(get("googlekey")), judgePage(get("pageurl")), judgeV3(in.params), s.judgeProxy(in, false))
	case "turnstile", "friendly_captcha":
		return first(judgePresent(get("sitekey")), judgePage(get("pageurl")), s.judgeProxy(in, false))
	case "hcaptcha":
		if !s.o.HCaptcha {
			return "ERROR_BAD_PARAMETERS"
		}
		return first(judgePresent(get("sitekey")), judgePage(get("pageurl")))
	case "captchafox":
		return first(judgePresent(get("sitekey")), judgePage(get("pageurl")), s.judgeProxy(in, true))
	case "cloudflare_challenge":
		return first(judgePage(get("pageurl")), s.judgeProxy(in, true))
	case "geetest":
		if get("version") == "4" {
			return s.judgeGeeTest4(in, "gt")
		}
		return first(judgePresent(get("gt")), judgePresent(get("challenge")), judgePage(get("pageurl")))
	case "geetest_v4":
		return s.judgeGeeTest4(in, "captcha_id")
	case "lemin":
		return first(judgePresent(get("captcha_id")), judgePresent(get("div_id")), judgePage(get("pageurl")))
	case "post":
		return s.judgeImage(in.image, get("filename"))
	case "base64":
		image, err := base64.StdEncoding.DecodeString(get("body"))
		if get("body") == "" {
			return "ERROR_EMPTY_CAPTCHA"
		}
		if err != nil {
			return "ERROR_IMAGE_TYPE_NOT_SUPPORTED"
		}
		return s.judgeImage(image, "")
	case "bls":
		return judgePresent(get("body"))
	}
	return "ERROR_BAD_PARAMETERS"
}

func first(codes ...string) string {
	for _, c := range codes {
		if c != "" {
			return c
		}
	}
	return ""
}

func judgePresent(v string) string {
	if v == "" {
		return "ERROR_BAD_PARAMETERS"
	}
	return ""
}

var siteKeyForm = regexp.MustCompile(`^[A-Za-z0-9_-]{20,80}$`)

func judgeSiteKey(k string) string {
	switch {
	case k == "":
		return "ERROR_GOOGLEKEY"
	case !siteKeyForm.MatchString(k):
		return "ERROR_WRONG_GOOGLEKEY"
	}
	return ""
}

func judgePage(page string) string {
	if u, err := url.Parse(page); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "ERROR_PAGEURL"
	}
	return ""
}

func judgeV3(v url.Values) string {
	score, err := strconv.ParseFloat(v.Get("min_score"), 64)
	if v.Get("version") == "v3" && (v.Get("action") == "" || v.Has("min_score") && (err != nil || score < 0 || score > 1)) {
		return "ERROR_BAD_PARAMETERS"
	}
	return ""
}

func (s *Service) judgeGeeTest4(in input, id string) string {
	if !s.o.GeeTestV4 {
		return "ERROR_BAD_PARAMETERS"
	}
	return first(judgePresent(in.params.Get(id)), judgePage(in.params.Get("pageurl")))
}

var (
	proxyForm = regexp.MustCompile(`^([^@:\s]+:[^@\s]+@)?[A-Za-z0-9.-]+:\d{1,5}$`)
	cardForm  = regexp.MustCompile(`^(http|https|socks4|socks5):[A-Za-z0-9.-]+:\d{1,5}(:[^:\s]+:[^:\s]+)?$`)
)

func (s *Service) judgeProxy(in input, required bool) string {
	proxy, kind := in.params.Get("proxy"), in.params.Get("proxytype")
	kinds := []string{"HTTP", "HTTPS", "SOCKS4", "SOCKS5"}
	if required {
		kinds = kinds[:2]
	}
	switch {
	case proxy == "" && required:
		return "ERROR_BAD_PARAMETERS"
	case proxy == "":
		return ""
	case s.o.CardProxy && cardForm.MatchString(proxy):
		return ""
	case s.o.CardProxy || !proxyForm.MatchString(proxy):
		return "ERROR_BAD_PROXY"
	case !slices.Contains(kinds, kind):
		return "ERROR_BAD_PARAMETERS"
	}
	return ""
}

func (s *Service) judgeImage(image []byte, name string) string {
	least, most := 1<<10, 1<<20
	if s.o.OldImageLimits {
		least, most = 100, 100_000
	}
	kind := http.DetectContentType(image)
	switch {
	case image == nil:
		return "ERROR_UPLOAD"
	case len(image) < least:
		return "ERROR_ZERO_CAPTCHA_FILESIZE"
	case len(image) > most:
		return "ERROR_TOO_BIG_CAPTCHA_FILESIZE"
	case name != "" && !slices.Contains([]string{".jpg", ".jpeg", ".png", ".gif"}, strings.ToLower(path.Ext(name))):
		return "ERROR_WRONG_FILE_EXTENSION"
	case kind != "image/jpeg" && kind != "image/png" && kind != "image/gif":
		return "ERROR_IMAGE_TYPE_NOT_SUPPORTED"
	}
	return ""
}
