"""Words and rules of the detection of prompt injection: data alone, read by `injection_guard`.

A class is a set of words with one meaning: negation, telling, secrets, tests and reviews. A rule names classes that
occur close to each other. To widen the detection, add a word to a class; a new class needs a rule. A row that changes
no verdict on the test texts is removed.
"""

# Words by class. `_` stands for a blank, `~` for up to three words in between, `*` for the rest of a word.
CLASSES = {
    "not": "not never dont no avoid cannot cant neednt doesnt didnt isnt arent wont shouldnt havent hasnt nobody none "
    "nothing refrain forbidden prohibited",
    "unlike": "unless instead_of rather_than prevents prevent blocks forbids refuses rejects because_of caused_by "
    "refused asks_you asks_us asked_us asked_to",
    "banned": "is_disabled is_blocked are_blocked is_forbidden are_forbidden not_allowed is_prohibited is_refused",
    "never": "dont never do_not must_not should_not shall_not not_to and_not but_not no_need neednt need_not "
    "not_have_to not_need_to no refrain avoid nobody no_one hasnt havent",
    "without": "without",
    "tell": "tell telling mention* bring_~_up raising_it disclos* admit reveal* inform informing notify notifying warn "
    "advertise highlight apprise alert",
    "tome": "tell_me telling_me tell_us inform_me notify_me warn_me",
    "show": "report reporting show showing say saying write list surface flag document discuss explain record announce",
    "ask": "ask asking asks asked confirm* approval permission consent prompting consult* questions waiting checking "
    "review reading authorization",
    "know": "know knows hear heard hears notice* learn learns bother* worry involve* aware asked told see informed "
    "consulted overthink disturb* wonder troubled annoyed",
    "user": "user developer developers owner human humans operator person team reviewer reviewers maintainer "
    "maintainers anyone anybody somebody everyone everybody someone ops boss auditor auditors him author administrator "
    "colleague* management nobody no_one account_holder lead manager",
    "this": "this it that these those step note rule finding change",
    "record": "summary summaries report reports changelog pr docs docstring description* message messages recap answer "
    "answers diff diffs listing listings transcript log logs history notes reply replies text status output comment "
    "comments commit review reviews audit handover chat readme standup ticket repo",
    "hide": "hide hiding conceal* omit omits confidential invisibly disguise bury obscure",
    "covert": "quietly secretly covertly discreetly unnoticed unseen stealthily inconspicuous* unmentioned undisclosed "
    "unobtrusive* invisibly unannounced",
    "out": "out away off",
    "keep": "keep keeps leave leaving left take strip remove erase drop",
    "usual": "stays_quiet stay_silent keep_quiet_about say_nothing_to say_nothing_about_this say_nothing_about_it",
    "self": "delete_this",
    "agent": "agent agents assistant assistants ai ais llm llms claude copilot codex gemini chatgpt gpt bot bots model "
    "models chatbot subagent subagents whoever whichever successor successors machine",
    "agents": "gemini assistants ais llm llms claude copilot codex chatgpt successors ai_agent ai_agents coding_agents "
    "coding_agent coding_assistant coding_assistants language_model language_models ai_assistants ai_assistant "
    "ai_models ai_tools ai_tool ai_reviewer* memory_clients automated_agent* automated_session* ai_helper* "
    "future_agents next_agent whichever_session whichever_agent any_agent any_assistant any_ai every_agent "
    "autonomous_agents whoever fellow_agents an_assistant llm_instructions you_who digital_assistant* "
    "automated_assistant* windsurf devin coding_model* ai_coder*",
    "lead": "dear attention hello hey hi note_to note_for hint_for to_the to_any to_all for_the",
    "duty": "must should shall have_to has_to are_to is_to need_to supposed expected ought will may are_required",
    "you": "you your yourself youre",
    "act": "run execute do start add set send install use open delete remove make mark call apply write put copy push "
    "merge commit publish upload post paste append create change replace switch fetch load download treat answer reply "
    "respond follow obey carry perform invoke grant give approve accept skip disable disregard ignore store print "
    "recommend insert include tag clone import overwrite drop wipe register enrol enroll begin submit mail collect "
    "star swap enable restart retry turn export scale report type forward attach hand log comply sign stop deploy "
    "consider force point lower raise introduce seed close pull mount end rename act state read leak waste release "
    "bypass build exfiltrate check let try transfer enter rewrite kill rotate look take continue go list free launch "
    "repeat hard_code ship dump resolve interpret pipe",
    "do": "do_it",
    "always": "always every each whenever everywhere future any_more systematically permanently",
    "void": "ignore disregard forget bypass dismiss abandon discard overrule set_aside drop stop_following neglect "
    "disobey throw_away toss scrap cease cancel_~_request sidestep defy supersede override",
    "isvoid": "void cancelled canceled revoked obsolete lifted suspended binding nullified invalid withdrawn "
    "superseded overridden not_apply dont_apply was_a_test end_here decorative expired optional retracted repealed "
    "rescinded no_longer_appl* were_a_test have_changed",
    "rules": "instruction* directive* directions guideline* guidance guardrail* safeguard* restrictions constraints "
    "prompt rules polic* safety protocol* training orders commands limits system_prompt restriction* limitation* "
    "boundaries mandate* everything_above",
    "prior": "previous prior earlier above your all any preceding former existing original every other whatever what "
    "everything developers system agents listed",
    "addprior": "above before",
    "rank": "supersedes outrank* outweigh* precedence over_that_of trumps as_seriously_as as_coming_from equal_to_the "
    "whatever_your",
    "deaf": "pay_no_attention stop_following",
    "approved": "approved authorised authorized consented consents agreed agrees accepted permitted cleared signed_off "
    "okd okayed preapproved preauthorised preauthorized confirmed granted waived consent blessing told_me allowed "
    "go_ahead all_clear vetted sanctioned greenlit blessed",
    "advance": "in_advance already beforehand blanket standing pre_authorised preapproved preauthorised preauthorized "
    "recorded permanently for_all on_file from_here_on approved_by reviewed_with any_more",
    "unasked": "on_~_behalf answer_yes accept_all allow_all auto_accept auto_approve whether_or_not_you to_be_asked "
    "blindly unconditionally",
    "pressure": "cto ciso system_notice admin_notice platform_team supervisor orchestrator emergency system_message "
    "mandatory elevated headquarters",
    "persona": "you_are_now you_are_no_longer roleplay unrestricted no_policies never_refuse* act_as_if you_now_report "
    "no_restrictions without_any_safety new_instructions have_been_upgraded only_valid_task act_as_the_admin*",
    "yes": "answer_yes",
    "freely": "unrestricted never_refuse* no_limits",
    "reveal": "reveal print show repeat output leak",
    "sysprompt": "system_prompt everything_above text_above",
    "recall": "recalled recall recalling loaded load loads reading read reads see seeing seen shown retrieved retrieve "
    "remembered surfaces comes_up looked_at injected picks_this appears process* parses finds summaris* summariz* "
    "ingest* index* crawl* scans parse visit* encounter*",
    "note": "note notes memory memories reminder entry lesson lessons notice instruction page file log document text "
    "sentence paragraph guide line lines message comment record context remark",
    "trigger": "whenever upon as_soon_as the_moment each_time every_time next_time after_each after_every before_each "
    "before_answering from_now_on from_here_on from_this_point henceforth hereafter at_first_run until_further "
    "when_you when_the_user if_you when_this is_mentioned comes_up on_recall on_load",
    "when": "when whenever upon once each_time every_time after if_you as_soon_as on the_moment next_time any all "
    "seeing",
    "period": "each every next per later future new following subsequent coming end_of start_of after_each",
    "sitting": "session sessions conversation conversations",
    "claim": "say state claim report answer describe pretend call write reply tell confirm mark insist record reads "
    "titled title put label present treat saying declare enter consider close explain act_as_if",
    "good": "passing passed pass green lgtm verified ok okay approved normal normally healthy clean cleaned_up done "
    "successful success housekeeping whitespace resolved tidied formatting typo safe finished reviewed refactoring "
    "harmless fixed tested routine wont_fix secure flaky compliant tolerable intended",
    "fail": "fail fails failing failed broken red flaky data_loss errors critical regardless",
    "fudge": "fabricat* falsif* backdat* tamper* round_~_down overstate understate until_~_wins",
    "files": "§secret private_key* ssh_key* unseal_key* api_key* api_token* keystore keychain environment_variables "
    "seed_phrase recovery_phrase recovery_code* credential* chat_transcript* conversations transcripts browser_profile "
    "cookie_store deploy_key* signing_key* session_token access_token* root_token env_file secrets_file chat_history "
    "environment service_account password_store passphrase customer_rows customer_table table_customers "
    "customer_database customer_data customer_records customer_name* 2fa_code* slack_dms private_advisory "
    "vulnerability_details salaries personal_data home_directory working_tree browser_cookie* browser_history "
    "users_table whole_conversation conversation customer_list invoices session_cookie* card_details production_dump "
    "pg_dump mnemonic keyring bearer_token* refresh_token* client_secret* connection_string* database_url ssn passport "
    "health_record* user_data customer_email* proprietary_code otp_code* private_message* internal_hosts payroll "
    "medical gcloud",
    "secret": "token tokens secret secrets password passwords cookie cookies otp customer* private_repo* last_prompt "
    "contents content localstorage source user_prompt* keys env addresses inbox",
    "send": "send sends upload* mail email post posts push attach* publish* submit* forward* copy copies copied paste "
    "pastes transmit* exfiltrat* leak share shares include* append put puts zip pack sync mirror encode expose dump "
    "relay store write written writes embed base64 print output mount archive collect export exported enter entering "
    "contain* commit transfer list resolve pass printed listed stage dumps mailed emailed posted sent collected backup "
    "repeat scp rsync deliver stream",
    "dest": "§url gist pastebin public publicly webhook wiki vendor issue link image badge portal dns contractor "
    "external your_answer your_reply your_next changelog chat outside support ticket partner pull_request "
    "pr_description upstream along_with_the_code ftp telegram discord broker gmail dropbox next_commit unmasked "
    "newsletter",
    "url": "§url",
    "fetch": "fetch load read open download get check visit loading fetching pull retrieve poll loads",
    "obeyit": "do_what carry_~_out carry_out follow_it run_it apply_it doing_what obey comply exec eval follow_the "
    "do_it do_as",
    "severe": "§severe reverse_shell reverse_tunnel drop_schema stash_clear ultimate_trust skip_permissions backdoor "
    "malware port_scan* login_attempts open_a_tunnel keylogger rootkit write_all bind_shell key_logger xmrig botnet "
    "socat exfiltration",
    "danger": "§danger nohup crontab cron_entry postinstall force_push force_pushing push_~_force root_certificate "
    "trusted_host rm_rf reset_hard share_all 777 terraform_destroy straight_to_main wipe_the delete_all npm_publish "
    "overwrite_the_remote autostart antivirus launch_agent remote_script public_key open_~_port every_process ngrok "
    "reverse_proxy to_public unattended_mode remote_code remote_access to_sh to_bash into_sh into_bash miner mining "
    "stratum cryptominer in_the_background push_to_main own_pull_request* own_prs disable_sandbox privileged_mode "
    "host_network docker_sock straight_to_production new_owner",
    "destroy": "delete deleting wipe erase drop destroy kill purge truncate overwrite clear free rewrite recreate "
    "alter scrub nuke trash obliterate shred",
    "asset": "§home backup backups database databases table tables production snapshots history branches lock_file "
    "stash customers users author gitmodules repository tickets the_git licence ns namespace namespaces volume volumes "
    "cluster bucket buckets documents pictures evidence",
    "weaken": "disable disabling skip skipping bypass bypassing remove removing omit drop turn_off turn_~_off "
    "deactivat* relax loosen lower widen weaken suppress xfail delete without_reading off waive exempt decorative "
    "removed disabled mute whitelist approve_~_without merge_~_without optional superfluous redundant swallow silence "
    "neuter exclude defeat strip lift unset not_run",
    "guard": "auth authentication authorization authorisation permission permissions signature signatures verification "
    "validation tls ssl certificate certificates reviews review approvals sandbox hook hooks csrf cors rate_limit* 2fa "
    "mfa encryption sanitis* sanitiz* escaping tests test_suite checks scan scanner firewall safety guard guards "
    "requirepass alerts audit audit_log security licence_check linter hashes parameterised_queries retention signing "
    "branch_protection codeowners warnings check sast scanning masking redaction protection xss captcha lockout "
    "throttling pre_commit two_person logging monitoring alerting gitleaks codeql checksum* lint authn authz acl acls "
    "rbac waf confirmation* hsts samesite httponly csp",
    "insecure": "md5 sha1 alg_none string_concatenation concatenat* hard_code hardcode plaintext wildcard "
    "rejectunauthorized public_read any_password card_number cvc allow_origin world_readable §insecure any_origin "
    "to_everyone default_password unverified role_owner without_auth never_masked in_clear_text return_true "
    "always_true empty_password no_encryption no_authentication no_validation without_validation without_encryption "
    "trust_all trust_every trust_any accept_any accept_every continue_on_error rc4 ecb cleartext constant_seed "
    "admin_role",
    "supply": "registry mirror fork forked index_url mcp_server extension submodule* trusted_host crate dependency "
    "remote postinstall plugin gitmodules",
    "bend": "adds introduce add change swap replace switch redirect insert waste reroute point plant inject rewrite "
    "pinned pin pulled install",
    "harm": "random_delay iban wallet_address account_number bank_details payout_address deposit_address account_id "
    "merchant_id stripe_account paypal bitcoin_address subtle_bug subtle_error license_header me_as",
    "pose": "git_identity commit_as",
    "tool": "use_your_terminal bash_tool call_the_tool fetch_tool",
    "replicate": "copy store write save repeat append include replicate keep readd add spread propagate paste pastes "
    "carry insert put preserve recall replicated",
    "selfnote": "this_note this_memory this_rule this_text this_sentence this_message this_line this_reminder "
    "this_entry itself this_same this_pair this_block this_section this_guide",
    "again": "again every_project long_term_memory every_file verbatim user_preference other_project* each_of_them "
    "cursorrules §memory other_repositories",
    "decode": "decode decoded decoding unescape rot13 backwards backward reverse hex unscramble decipher b64decode "
    "frombase64string atob acrostic first_letter morse base32 base58 cipher caesar",
    "policy": "policy convention conventions house_style team_decision project_standard rule agreement preference "
    "versioning",
    "risky": "§risky as_root sudo root_rights",
    "role": "§role",
    "markup": "§markup",
    "tags": "§tags §blob",
    "hidden": "§hidden",
    "^": "^",
    ":": ":",
    "protect": "need_a_person needs_a_person need_a_human needs_a_human need_approval needs_approval need_confirmation "
    "ask_before asks_before ask_first wait_for requires_approval",
    "regard": "treat interpret regard consider take handle accept understand",
    "asorder": "as_the_command as_trusted as_instructions as_commands as_orders",
    "give": "add create grant grants give make put assign promote invite elevate set concede",
    "rights": "owner owners admin admins administrator owner_level superuser sudo_group sudo_groups collaborator "
    "collaborators write_access full_access admin_access root_access super_admin cluster_admin write_permission* "
    "privileges maintainer_role superuser_role",
    "others": "other_people* colleague* coworker* admin admins customer customers his her their maintainers",
    "belonging": "token tokens account accounts login password passwords card badge session identity credential* key "
    "keys",
    "noone": "nobody no_one none",
    "logs": "log logs print echo store",
    "cred": "passwords card_number* cvv cvc secrets",
    "noneed": "no_need need_not neednt dont_need dont do_not never stop no",
    "clearance": "ask asking confirm* confirmation approval permission consent questions",
    "answer": "your_answer* your_repl* their_answer* your_next",
}

# The same classes in other languages: parts of words, in any order, `_` for a blank.
FOREIGN = {
    "without": "_ohne_ _sans_ _sin_ _senza_ _sem_ _zonder _bez_ _без_ _tanpa _utan_ _uden_ χωρίς بدون बिना 없이 ずに "
    "无需 未经 vermeden sormadan mà_không",
    "tell": "_sag_ _sage _sagt erwähn einzuweihen verrat _dire_ _dis_ _dites_ préven prévien _parle _digas _decir "
    "_diga_ mencion avis _comentes _conte_ _dirlo menzion avvis vertel _zeg vermeld _mów powiadam wspomin _říkej "
    "zmiňuj сообщ говор упомин скаж рассказ повідомл söyle bahset söz_etme bildir haber_ver beri_tahu bilang lapor "
    "_báo_ _nói_ cho_biết berätta _säg nämn meddela fortæl πεις αναφέρ ενημερ تخبر تذكر إخبار बता 告诉 提及 提起 告知 "
    "透露 通知 伝え 知らせ 言わ 알리 말하 보고하 알려 _dise_ пиши_об schreib_nichts menciones informier informe_ "
    "informez informar mentionn",
    "user": "nutzer anwender entwickler _chef utilisateur _équipe usuario usuário utente equipo gebruiker użytkownik "
    "uživatel пользовател користувач kullanıcı pengguna pemilik người_dùng användare bruger χρήστ المستخدم التقرير "
    "उपयोगकर्ता 用户 任何人 团队 开发者 ユーザー 利用者 開発者 사용자 개발자 누구 отчёт отчет",
    "agent": "assistent asystent assistente agente ассистент مساعد सहायक アシスタント エージェント 에이전트 asistente "
    "어시스턴트 모델에게",
    "duty": "_deve_ 请 してください 하세요 십시오",
    "you": "_du_ _dir_ _toi _tuo _tes_",
    "always": "_jede _alle_ _immer_ chaque toujours systématiq _tous_ _toutes _siempre _cada_ _todos_ _todas_ _sempre "
    "_ogni_ _elke_ _altijd zawsze _każd _vždy всегда каждо her_zaman _setiap _selalu kapan_saja _luôn_ _mỗi_ alltid "
    "_varje πάντα _κάθε _हर_ सभी كل_ 每次 所有 一律 每个 すべて 全て 毎回 모든 모두 매번 항상 전부",
    "trigger": "_ab_jetzt _ab_sofort von_nun_an _künftig nächste_sitzung désormais dorénavant à_partir_de a_partir_de "
    "de_ahora_en da_adesso cada_vez _vanaf od_teraz отныне с_этого_момента şu_andan mulai_sekarang từ_nay từ_giờ "
    "från_och_med 以后 从现在 今后 每次 これからは 今後 今から 毎回 次回 앞으로 지금부터 이제부터 때마다 즉시 "
    "지금_바로",
    "void": "vergiss missacht _umgehe oubli olvid desobede esqueç dimentic negeer vergeet pomiń zapomnij игнор забуд "
    "yoksay görmezden _unut abaikan lupakan bỏ_qua _quên glöm bortse αγνόησ ξέχασ تجاهل अनदेखा भूल 忽略 无视 忘记 忘掉 "
    "抛开 無視 忘れ 무시 잊고 잊어 버리고 따르지 ignorier ignorez ignora_ ignore_toutes ignore_tous ignoruj ignorujte",
    "isvoid": "無効 취소되 해제되 유효하지",
    "rules": "anweisung vorgabe richtlinie consigne instruk règle _regla _regra _regole istruzion _zasad pokyn pravidl "
    "указани инструкц правил kural talimat _aturan perintah quy_tắc hướng_dẫn chỉ_dẫn _lệnh οδηγί κανόν تعليمات قواعد "
    "निर्देश नियम 指示 指令 命令 规则 提示词 ルール 規則 プロンプト 지시 명령 규칙 지침 프롬프트 대화 instrucc instruç "
    "_regel",
    "prior": "bisherig vorherig früher précédent anterior precedent _vorige eerder wcześniejsz poprzedni předchoz "
    "прежн предыдущ попередн _все_ önceki sebelumnya trước tidigare προηγούμεν السابقة पिछल _alle_ _deine _tous_ "
    "_toutes_ _todas _todos _tutte wszystk všechn _tüm_ semua tất_cả 之前 以前 上面 先前 你的 所有 これまで 上記 "
    "すべて 前の 이전 앞선 기존 지금까지 위의 위_ 모든 모두 너의 당신의 _tes_ _tus_",
    "approved": "genehmigt freigegeben zugestimmt approuv autoriz _aprob _aprov goedgekeurd zatwierdz schváli одобр "
    "разреш схвал onayla menyetujui disetujui phê_duyệt đã_đồng_ý godkän godkend εγκρί_ ενέκριν وافق अनुमति मंज़ूर "
    "批准了 承認 승인 _approvat _autorisé",
    "send": "schick _sende hochlad _envoi _envoy transm _envía _envi _manda_ _sube_ invia_ inoltra stuur verstuur "
    "wyślij prześlij _pošli отправ загруз надішл gönder yükle _kirim unggah gửi tải_lên skicka στείλ ανέβασ أرسل भेज "
    "अपलोड consegn _entreg 发送 上传 发到 打包 附上 送信 アップロード 전송 보내 업로드",
    "files": "zugangsdaten schlüssel passwör passwort geheimnis mot_de_passe mots_de_passe identifiants_ _clés_ "
    "contraseña _clave credencial senha _chave credenzial _chiavi wachtwoord sleutel _hasł _klucz _hesl парол ключ "
    "секрет şifre anahtar kata_sandi _kunci mật_khẩu khóa lösenord nyckel κωδικ κλειδι المرور مفاتيح पासवर्ड कुंजी "
    "密钥 凭证 密码 环境变量 環境変数 秘密鍵 パスワード 비밀번호 비밀_키 토큰 환경_변수",
    "secret": "내용",
    "dest": "öffentlich _publi esterno",
    "act": "führe _ejecuta запуст 运行 执行 実行 削除 送信 푸시 간주 붙여",
    "danger": "강제 jako_root от_имени_root direkt_auf_produktion administrador",
    "destroy": "lösch supprim _efface _borra _elimin _apag cancell verwijder _usuń usuw skasuj _smaž _удал_ удали сотр "
    "_sil_ silin _hapus _xóa radera _ta_bort _slet_ διάγραψ διαγράψ احذف امسح मिटा हटा 删除 削除 初期化 삭제",
    "asset": "sicherung datenbank sauvegard base_de_d bases_de_d banco_de_dados copias_de databas kopii bazę_ баз "
    "резерв журнал логи veritaban yedek basis_data cadangan cơ_sở_dữ_liệu sao_lưu lịch_sử βάση αντίγραφ قاعدة النسخ "
    "डेटाबेस बैकअप लॉग produktion producción produção produzione produkcyjn produksi 本番 备份 数据库 バックアップ "
    "データベース 백업 데이터베이스 日志 journaux",
    "weaken": "deaktivier abschalt auskommentier überspring désactiv contourn desactiv desativ disattiv disabilit "
    "uitschakel _schakel wyłącz pomij pomiń vypni отключ обойд пропус вимкн kapat devre_dışı nonaktifkan matikan "
    "lewati _tắt_ vô_hiệu stäng_av avaktiver inaktiver απενεργοποί παράκαμψ عطل تعطيل बंद removam _retire_ 跳过 关闭 "
    "禁用 不做 スキップ 無効化 건너뛰 끄고 비활성 지워",
    "guard": "prüfung authentif validier validación validação vérification contrôle protección proteção verificaci "
    "verificaç verifica_ beveilig weryfik uwierzyteln zabezpiecz ověř проверк аутентиф подпис безопасн перевірк "
    "doğrulama güvenlik verifikasi keamanan autentikasi xác_thực kiểm_tra bảo_mật verifiering säkerhet έλεγχο "
    "επαλήθευσ التحقق المصادقة सत्यापन सुरक्षा ऑडिट revisión revisão revisione prueba 权限校验 安全检查 审查 校验 验证 "
    "検証 レビュー 認証 안전 검증 리뷰 인증 테스트",
    "claim": "報告 _melden _répond _decir_",
    "good": "_grün 済み bestanden pasaron 成功 _vert_",
    "replicate": "_guarda انسخ copiez copiem",
    "selfnote": "este_mensaje esta_memória",
    "again": "todos_los_proyectos todos_os_projetos",
    "persona": "du_bist_jetzt tu_es_maintenant ahora_eres 你现在是 あなたの新しい 너는_지금부터 作为ai",
    "freely": "任务 ohne_einschränkung 没有限制 任務",
    "pressure": "messaggio_del_sistema 시스템",
    "unasked": "ohne_ticket sin_ticket sans_ticket",
    "covert": "知られな 몰래 비밀로",
    "answer": "回答后 답변",
    "never noneed": "_nicht _nie_ _niemals _kein _jamais _rien_ _nunca _nada_ _não _non_ _niet _nooit _geen_ _nigdy "
    "_nikdy _не_ _ни _никогда _jangan _tidak_ đừng không_ _inte_ _aldrig _ikke_ _μην_ _ποτέ لا_ _मत नहीं 不要 别 勿 "
    "不得 ないで 말고 마세요 마라 않 _ne_ _pas_ _no_ 지_마",
    "ask clearance": "frag bestätig _demand conferm pregunt pergunt _chied vraag _vragen bevestig toestemming _pyta "
    "zgod potwierdz ptát souhlas спраш спрос подтвержд соглас запит onay sorma konfirmasi bertanya persetujuan _izin "
    "hỏi xác_nhận fråg spørg ρωτ επιβεβαί تأكيد موافقة पूछ पुष्टि 确认 询问 批准 確認 許可 묻지 확인 허락 승인 "
    "confirmar confirmaci confirmaç",
}

# Rules by feature: points, and classes in this order. A class follows within six words of the one before, behind `~`
# within two, behind `+` at once. `&` joins parts that may be anywhere in the sentence, `|` separates alternatives, and
# `!` demands that no negation is close to the class. Of a feature's rules the one with most points counts. `context`
# counts only beside another feature; `order` has no points, it says whether the sentence asks for something.
RULES = {
    "conceal": "3 !never|without tell user|this; 3 without user tell; 3 tell|send +noone; 1 !never|without tell; "
    "3 !never|without show this & you|user|record; 2 !never|without show this|user; 1 !never|without show record; "
    "3 user|never never|user know; 3 covert & user|record; 3 covert ~act; 2 covert; 2 hide this|user|record; "
    "3 keep ~this out record; 3 usual; 2 self",
    "override": "3 !void ~user; 3 !void ~prior rules|addprior|user; 3 !void rules & prior|user; "
    "3 rules & isvoid & prior|you|user; 3 not isvoid & user; 3 deaf & user; 2 !void rules; 2 rules & isvoid",
    "rank": "3 rank & agent|you|user; 3 !regard asorder",
    "consent": "2 user|you|agent ~approved; 2 !approved ~user; 2 !approved|advance advance|approved; 2 yes",
    "unasked": "2 !without ~ask; 2 noneed ~clearance; 2 unasked",
    "pressure": "1 pressure",
    "persona": "3 !persona & freely|agent; 2 !persona; 3 !reveal ~sysprompt",
    "address": "3 ^|lead ~agent|agents +: ~act; 3 : ~agent|agents ~: ~act; 3 agent|agents ~recall ~this & duty|act; "
    "2 ^|:|lead ~agent|agents +:; 2 lead ~agents; 2 agents ~duty act; 2 you ~agents; 1 agent ~duty act; "
    "3 agent|agents ~you ~duty act",
    "tool": "3 tool & duty; 2 tool",
    "recall": "2 when note ~recall; 2 when recall note",
    "claim": "3 !claim good & fail; 2 !claim good",
    "fudge": "3 !fudge",
    "theft": "3 !send & files & dest; 3 !send & secret & url; 3 !send secret dest; 1 !send & files",
    "remote": "3 fetch & url & obeyit",
    "danger": "3 !severe; 2 !danger",
    "destroy": "2 !destroy asset",
    "risky": "1 risky",
    "weaken": "2 !weaken guard; 2 guard !weaken; 2 guard +banned",
    "insecure": "2 !insecure; 2 !logs cred",
    "supply": "2 !act|bend supply & url; 1 !bend supply",
    "harm": "3 !bend harm",
    "pose": "3 !pose",
    "replicate": "3 replicate & selfnote & again|always",
    "decode": "3 decode & obeyit|agent; 1 decode & act",
    "role": "3 tags; 3 markup & act|you|agent|always; 2 role & act|you|agent|duty",
    "hidden": "1 hidden & act|you",
    "trigger": "1 trigger",
    "context": "1 always|policy; 1 period ~sitting",
    "grant": "2 !give & rights",
    "steal": "3 !act|bend|send others ~belonging",
    "output": "1 act & answer",
    "order": "1 do|duty|trigger|you",
}
# What a sentence may also report. Only the worst of them counts, at most two points unless the sentence gives an order.
HARMS = frozenset("claim fudge theft danger destroy risky weaken insecure supply harm pose grant steal".split())

# Parts of a sentence as it is written, and the word that they stand for.
PARTS = {
    "§severe": "rm -rf ~;rm -rf /;rm -rf $;chmod 777;chmod -r 777;nc -e;/dev/tcp;--dangerously;bash(*);nslookup $;"
    "exec(u.;approval_policy;tls_reject_unauthorized;setenforce 0;$(curl;$(cat ~;$(whoami).;ssh -r ;ld_preload;"
    "hookspath;sudoers;authorized_keys;nopasswd;insteadof;permitrootlogin;disablesandbox",
    "§danger": "| sh;|sh;| bash;|bash;| zsh;| iex;|iex;| sudo;--no-verify;push --force;push -f;--trusted-host;"
    "--index-url;--access public;-auto-approve;npx -y;git clean -fdx;credential.helper '!;`nc ;/$(whoami);bash <(;"
    "curl -d ;ftp://;wget -qo- ;reset --hard;branch -d;--accept-all;&& sh ;&& bash ;| python;.bashrc;.zshrc;"
    "--share-all; nc ",
    "§insecure": 'verify=false;rejectunauthorized;"none";origin to *;"*";0.0.0.0;insecureskipverify;public-read;'
    "sslmode=disable;sandbox=false;verify_ssl",
    "§markup": "<|im_;<|start_header;<|eot;[inst];[/inst];<<sys>>;<instructions>;<assistant>;<human>;[system];"
    "[/system];to=functions",
    "§tags": "<system>;</system>;<system-;</system-;<system_prompt;<function_calls;<function_results;"
    "<tool_result;<thinking>;<invoke>",
    "§blob": "base64 -d | sh;base64 -d | bash;base64 --decode | sh;base64 --decode | bash;base64 -d|sh;base64 -d|bash;"
    'exec(__;-encodedcommand;eval(atob;-c "$(echo;exec(base64',
    "§role": '"role":"system;"role":"developer;"role": "system;"role": "developer;system:;human:;developer:;'
    "system message:;시스템:;시스템 메시지:;### user:;### assistant:;### human:",
    "§hidden": "display:none;font-size:0;color:#fff;visibility:hidden;<!--;<details hidden;[//]: #",
    "§risky": "http://;paste",
}
SECRET_FILES = (
    ".env .ssh id_rsa id_ed25519 .aws .netrc .npmrc .pem .jks .kube credentials .gnupg .docker/config hosts.yml "
    ".pgpass /etc/shadow /etc/passwd .key .p12 .claude/projects _token master.key production.yml _key _secret "
    "cookies keychain otp.txt .secrets -token passphrase"
).split()
MEMORY_FILES = ("claude.md", "agents.md", "memory.md", "memories.md", "cursorrules")
# Words by which a sentence is known to be English.
ENGLISH = frozenset(
    "the are this with from when you your that by be has was were if not and after before use run only must should "
    "never every all for our such write it its which or".split()
)
# A text about prompt injection quotes it.
SUBJECT = (
    "injection injected jailbreak red-team attacker malicious phishing untrusted poison threat classifier "
    "detects catches flags guard"
).split()
