package shop

import "net/http"

func (s *Shop) contactForm(w http.ResponseWriter, r *http.Request) {
	s.renderContact(w, r, http.StatusOK, page{})
}

func (s *Shop) contact(w http.ResponseWriter, r *http.Request) {
	if s.captcha != nil && !s.captcha.Solved(r.PostForm.Get("g-recaptcha-response")) {
		s.renderContact(w, r, http.StatusForbidden, page{
			Message: "Please show that you are not a robot.",
			Typed:   r.PostForm.Get("message"),
		})
		return
	}
	http.Redirect(w, r, "/thanks", http.StatusSeeOther)
}

func (s *Shop) renderContact(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Title, p.User = "Contact", s.signedIn(r)
	if s.captcha != nil {
		p.SiteKey = s.captcha.SiteKey
	}
	s.render(w, r, status, "contact", p)
}

func (s *Shop) thanks(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "thanks", page{Title: "Thank you", User: s.signedIn(r)})
}
